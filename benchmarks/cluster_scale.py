"""Cost of handing a matrix to a cluster, a stage or a group of stages a submission: stub stages.

The queue is that of tests/cluster/queue: a submission runs as a process of this machine, and holds
one of `--slots` slots from its first to its last moment. As the stages do nothing, all of that is
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

ROOT = Path(__file__).parents[1]
QUEUE = ROOT / "tests/cluster/queue"
TARGET = "results/latency.csv"
PACKAGES = ("snakemake", "snakemake-executor-plugin-cluster-generic")

# A group of its own for each job is no group.
UNGROUPED = {
    "make_reference": "{model}",
    "export_program": "{model}-{frontend}",
    "compile_iree": "compile-{model}-{frontend}-{target}",
    "measure_iree": "measure-{model}-{frontend}-{target}",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster_scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cells", type=int, default=2000, metavar="N")
    parser.add_argument("--slots", type=int, default=2, help="submissions that run at once")
    parser.add_argument("--ungrouped", action="store_true", help="a stage a submission")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="vmfbench-cluster-"))
    try:
        row = measure(folder, args.cells, args.slots, args.ungrouped)
    finally:
        shutil.rmtree(folder)
    for name, value in row.items():
        print(f"{name:24} {value}")
    if args.out:
        machine = timing.machine(PACKAGES)
        args.out.write_text(json.dumps(row | {"machine": machine}, indent=2) + "\n")


def measure(folder: Path, cells: int, slots: int, ungrouped: bool) -> dict:
    """One whole run of a matrix of `cells` cells; raises RuntimeError where a row is missing."""
    checkout, queue = folder / "checkout", folder / "queue"
    checkout.mkdir()
    queue.mkdir()
    whole = synthetic.make_checkout(checkout, cells)
    command = [
        *(sys.executable, "-m", "snakemake", TARGET),
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
    rows = (checkout / TARGET).read_text(encoding="utf-8").splitlines()[1:]
    wanted = sum(1 for _ in whole.cells())
    if len(rows) != wanted or not all(",ok," in row for row in rows):
        raise RuntimeError(f"{len(rows)} rows of {wanted}, or not all ok:\n{run.output[-3000:]}")
    held = [held_seconds(job) for job in queue.iterdir()]
    return {
        "cells": wanted,
        "jobs": synthetic.jobs(whole) - 1,
        "submissions": len(held),
        "run_s": round(run.seconds, 1),
        "slot_s": round(sum(held), 1),
        "slot_s_a_submission": round(sum(held) / len(held), 2),
        "slot_s_a_cell": round(sum(held) / wanted, 2),
        "head_cpu_s": round(run.cpu_seconds, 1),
        "head_peak_mb": round(run.peak_mb),
    }


def held_seconds(job: Path) -> float:
    """From the submission of a job, which begins at once, to its end."""
    return (job / "exit").stat().st_mtime - (job / "script").stat().st_mtime


if __name__ == "__main__":
    main()
