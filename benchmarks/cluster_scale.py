"""Measures the cost of submitting a matrix to a cluster, with one stage or a group of stages per submission.

The queue is that of tests/cluster/queue: a submission runs as a process of this machine and holds one
of `--slots` slots from its first to its last moment. The stages are stubs, so all of that time is
overhead.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks import synthetic, timing
from scripts.config import stages
from scripts.config.cell import Kind
from scripts.supervise import outcome

ROOT = Path(__file__).parents[1]
QUEUE = ROOT / "tests/cluster/queue"
TARGET = "results/latency.csv"
VERIFIED = "results/verify/*/*/*/status.json"
PACKAGES = ("snakemake", "snakemake-executor-plugin-cluster-generic")

# A separate group for each job is no group.
UNGROUPED = {
    "make_reference": "{model}",
    "export_program": "{model}-{frontend}",
    "compile_iree": "compile-{model}-{frontend}-{target}",
    "verify_iree": "verify-{model}-{frontend}-{target}",
    "time_group": "time-{model}-{device}-{test}",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster_scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cells", type=int, default=2000, metavar="N")
    parser.add_argument(
        "--first", type=int, metavar="N", help="make only N cells of the matrix, and no CSV"
    )
    parser.add_argument(
        "--slots", type=int, default=2, help="submissions that run at the same time"
    )
    parser.add_argument("--ungrouped", action="store_true", help="one stage per submission")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="vmfbench-cluster-"))
    try:
        row = measure(folder, args.cells, args.slots, args.ungrouped, args.first)
    finally:
        shutil.rmtree(folder)
    for name, value in row.items():
        print(f"{name:24} {value}")
    if args.out:
        machine = timing.machine(PACKAGES)
        args.out.write_text(json.dumps(row | {"machine": machine}, indent=2) + "\n")


def measure(folder: Path, cells: int, slots: int, ungrouped: bool, first: int | None) -> dict:
    """One whole run of a matrix of `cells` cells, or of the first of them; raises RuntimeError
    where one is missing or has failed."""
    checkout, queue = folder / "checkout", folder / "queue"
    checkout.mkdir()
    queue.mkdir()
    whole = synthetic.make_checkout(checkout, cells)
    wanted = [stages.status_path("verify", of) for of in whole.of_kind(Kind.IREE)][:first]
    command = [
        *(sys.executable, "-m", "snakemake", *(wanted if first else [TARGET])),
        *("--profile", "workflow/profiles/cluster-generic", "--jobs", str(slots)),
        *("--cluster-generic-submit-cmd", str(QUEUE / "submit")),
        *("--cluster-generic-status-cmd", str(QUEUE / "status")),
        *("--cluster-generic-cancel-cmd", str(QUEUE / "cancel")),
        *("--max-status-checks-per-second", "20", "--seconds-between-status-checks", "1"),
    ]
    if ungrouped:
        command += ["--groups", *(f"{rule}={group}" for rule, group in UNGROUPED.items())]
    os.environ["QUEUE"] = str(queue)
    run = timing.run(tuple(command), checkout)
    made = {str(path.relative_to(checkout)): path for path in checkout.glob(VERIFIED)}
    done = [
        cell for cell in wanted if cell in made and outcome.read(made[cell]).status == outcome.OK
    ]
    if len(done) != len(wanted) or not (first or (checkout / TARGET).is_file()):
        raise RuntimeError(f"{len(done)} cells of {len(wanted)}:\n{run.output[-3000:]}")
    held = [held_seconds(job) for job in queue.iterdir()]
    return {
        "matrix": cells,
        "cells": len(done),
        "submissions": len(held),
        "run_s": round(run.seconds, 1),
        "slot_s": round(sum(held), 1),
        "slot_s_a_submission": round(sum(held) / len(held), 2),
        "slot_s_a_cell": round(sum(held) / len(done), 2),
        "head_cpu_s": round(run.cpu_seconds, 1),
        "head_peak_mb": round(run.peak_mb),
        "files": sum(1 for path in (checkout / "results").rglob("*") if path.is_file()),
        "files_of_snakemake": sum(
            1 for path in (checkout / ".snakemake").rglob("*") if path.is_file()
        ),
    }


def held_seconds(job: Path) -> float:
    """From the submission of a job, which begins at once, to its end."""
    return (job / "exit").stat().st_mtime - (job / "script").stat().st_mtime


if __name__ == "__main__":
    main()
