"""Measures the cost of the workflow itself by the size of the matrix, with real rules and stub stages.

The dry run and the no-op are compared with a plain Snakefile of the same job graph (plain.smk)."""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks import synthetic, timing
from scripts.config.rows import Matrix

SNAKEMAKE = (sys.executable, "-m", "snakemake")
TARGET = "results/latency.csv"
PACKAGES = ("snakemake", "pandas")

# Records every job as done, like a run that has made all files: `snakemake --touch` without its
# scheduler, which takes most of the time there.
_RECORD = """
from snakemake.cli import main
from snakemake.scheduling.job_scheduler import JobScheduler

def record(scheduler):
    dag = scheduler.workflow.dag
    async def each():
        for job in dag.needrun_jobs():
            await dag.workflow.persistence.finished(job)
    scheduler.workflow.async_run(each())
    return True

JobScheduler.schedule = record
main()
"""
# A stub cannot be forked, and each stage would wait five seconds before it notices.
_STAGES = ("make_reference", "export_program", "compile_iree", "verify_iree")
_NOT_FORKED = ("--set-resources", *(f"{stage}:preload=0" for stage in _STAGES))
_RECORD_OPTIONS = ("--touch", "--forceall", "--cores", "all")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.matrix_scale", description=__doc__)
    parser.add_argument("--cells", nargs="*", type=int, default=[1000, 10000], metavar="N")
    parser.add_argument(
        "--execute",
        nargs="*",
        type=int,
        default=[],
        metavar="N",
        help="numbers of cells to run completely",
    )
    parser.add_argument(
        "--repeats", type=int, default=3, help="repetitions of the dry run and the no-op"
    )
    parser.add_argument("--out", type=Path, help="JSON file to write")
    args = parser.parse_args()
    results = {"machine": timing.machine(PACKAGES), "scale": [], "execute": []}
    for cells in args.cells:
        results["scale"].append(_in_checkout(cells, lambda *at: scale(*at, args.repeats)))
        _print_row(results["scale"][-1])
    for cells in args.execute:
        results["execute"].append(_in_checkout(cells, execute))
        _print_row(results["execute"][-1])
    if args.out:
        args.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


def scale(folder: Path, whole: Matrix, repeats: int) -> dict:
    """Dry run with nothing done, then with everything done, by turns with a plain Snakefile of the
    same jobs and files; seconds, CPU seconds and peak memory."""
    jobs = synthetic.jobs(whole)
    both = (folder, synthetic.make_plain(folder))
    dry = _by_turns(both, repeats, "-n")
    for run in itertools.chain(*dry):
        _expect(f"total {jobs}" in " ".join(run.output.split()), "the dry run lists other jobs")
    synthetic.fill_results(folder, whole)
    aggregate = timing.run(_aggregate_command(), folder)
    synthetic.make_plain(folder)
    with ThreadPoolExecutor() as pool:
        list(pool.map(_record, both))
    noop = _by_turns(both, repeats, "--cores", "all")
    for run in itertools.chain(*noop):
        _expect("Nothing to be done" in run.output, "a finished run has jobs left")
    # With no recorded params this would find nothing to do either.
    retry = _snakemake(folder, "-n", "--config", "retry=all")
    _expect("Params have changed" in retry.output, "no params were recorded")
    return {
        "cells": sum(1 for _ in whole.cells()),
        "jobs": jobs,
        **_compared("dry_run", *dry),
        **_compared("noop", *noop),
        "retry_all_dry_run_s": retry.seconds,
        "aggregate_s": aggregate.seconds,
        "peak_mb": max(run.peak_mb for run in (*dry[0], *noop[0], retry)),
        "plain_peak_mb": max(run.peak_mb for run in (*dry[1], *noop[1])),
        "aggregate_peak_mb": aggregate.peak_mb,
    }


def _by_turns(folders: Sequence[Path], repeats: int, *options: str) -> list[list[timing.Run]]:
    """The runs in each folder, so that what else the machine does falls on all of them."""
    turns = [[_snakemake(folder, *options) for folder in folders] for _ in range(repeats)]
    return [list(runs) for runs in zip(*turns, strict=True)]


def _compared(name: str, ours: list[timing.Run], plain: list[timing.Run]) -> dict:
    """Wall and CPU seconds of both, and the ratios of their medians."""
    row: dict = {}
    for unit, of in (("s", "seconds"), ("cpu_s", "cpu_seconds")):
        here, there = ([getattr(run, of) for run in runs] for runs in (ours, plain))
        row[f"{name}_{unit}"] = timing.spread(here)
        row[f"plain_{name}_{unit}"] = timing.spread(there)
        row[f"{name}_{unit}_ratio"] = statistics.median(here) / statistics.median(there)
    return row


def _record(folder: Path) -> timing.Run:
    """Record every job as done."""
    return timing.run((sys.executable, "-c", _RECORD, *_RECORD_OPTIONS, "--", TARGET), folder)


def execute(folder: Path, whole: Matrix) -> dict:
    """A full run whose stages do nothing: what remains is overhead."""
    jobs = synthetic.jobs(whole)
    run = _snakemake(folder, *_NOT_FORKED, "--cores", "all")
    rows = (folder / TARGET).read_text(encoding="utf-8").splitlines()[1:]
    cells = sum(1 for _ in whole.cells())
    _expect(len(rows) == cells and all(",ok," in row for row in rows), "not every row is ok")
    journal = (folder / "results/logs/journal.jsonl").read_text(encoding="utf-8").splitlines()
    stages = [json.loads(line) for line in journal]
    supervised = [s["end"] - s["start"] for s in stages if "child_seconds" in s]
    children = [s["child_seconds"] for s in stages if "child_seconds" in s]
    return {
        "cells": cells,
        "jobs": jobs,
        "run_s": run.seconds,
        "overhead_s_a_job": run.seconds / jobs,
        "supervised_s": timing.spread(supervised),
        "child_s": timing.spread(children),
        "supervise_command_s": timing.spread([_supervise(folder) for _ in range(20)]),
        "peak_mb": run.peak_mb,
    }


def _supervise(folder: Path) -> float:
    """Seconds of the supervisor's command around a stage that ends at once."""
    command = (
        sys.executable,
        "-m",
        "scripts.stages.supervise",
        "--stage",
        "export",
        "--cell",
        "probe",
    )
    files = ("--status", "probe/status.json", "--log", "probe/log.txt")
    limits = ("--timeout", "60", "--memory", "4096", "--run", "true", "--python", "true")
    limits += ("--request", "{}", "--version", "1")
    return timing.run((*command, *files, *limits), folder).seconds


def _aggregate_command() -> tuple[str, ...]:
    return sys.executable, "-m", "scripts.stages.aggregate_results"


def _snakemake(folder: Path, *arguments: str) -> timing.Run:
    return timing.run((*SNAKEMAKE, TARGET, *arguments), folder)


def _in_checkout(cells: int, measure: Callable) -> dict:
    """Measure in a fresh checkout of that many cells, removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="vmfbench-scale-"))
    checkout = folder / "checkout"
    checkout.mkdir()
    try:
        whole = synthetic.make_checkout(checkout, cells)
        time.sleep(1)  # older than whatever is made next, on any file system
        return measure(checkout, whole)
    finally:
        shutil.rmtree(folder)


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise RuntimeError(f"not what is to be measured: {otherwise}")


def _print_row(row: dict) -> None:
    """One line a figure, medians with their range."""
    print(f"{row['cells']} cells, {row['jobs']} jobs", flush=True)
    for name, value in row.items():
        if isinstance(value, dict):
            text = f"{value['median']:.3f}  ({value['min']:.3f} to {value['max']:.3f})"
            print(f"  {name:22} {text}", flush=True)
        elif isinstance(value, float):
            print(f"  {name:22} {value:.3f}", flush=True)


if __name__ == "__main__":
    main()
