"""Measure the overhead of tuning: how many seconds it takes to reach 90 % of the gain of an exhaustive search.

    python -m benchmarks.tuner --models vit gpt2-decode graphsage

For each model, all modules are measured in all rounds first (`tune: {keep: 1}`) for `--exhaustive`
seconds. That gives the latency of every candidate, and the largest gain over what is configured.
Then the tuner searches with each of the `--budgets`. The candidate that it chooses counts with its
latency in the exhaustive search. The share of the gain that is reached is a ratio of logarithms: 0 is
what is configured, 1 the fastest candidate. A model of which no candidate is 5 % faster than what is
configured has no share. Everything is measured on this machine, one search after another; programs
and references are made if they do not exist.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from scripts.lib.config.cell import Cell, Kind
from scripts.lib.config.stage import REPORT
from scripts.lib.config.stages import STAGES
from scripts.lib.core import atomic, exits
from scripts.lib.supervision.tuning import report
from scripts.lib.supervision.tuning.report import Report

ENOUGH = 0.9
"""The share of the gain that is to be reached."""
LEAST = 1.05
"""The least gain of which a share says something: smaller ones are within the noise of single measurements."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tuner",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--models", nargs="+", default=["vit", "gpt2-decode", "graphsage"])
    parser.add_argument("--target", default="llvm-cpu")
    parser.add_argument("--budgets", nargs="+", type=float, default=[30, 60, 120, 240, 480])
    parser.add_argument("--exhaustive", type=float, default=1800, help="seconds per model")
    args = parser.parse_args()
    shown = Table("model", "candidates", "largest gain", "budget", "seconds", "gain", "share")
    for model in args.models:
        whole = latencies(search(model, args.target, args.exhaustive, keep=1))
        if whole.largest < LEAST:
            shown.add_row(
                model, str(len(whole.ms)), f"{whole.largest:.2f}", "", "", "", "nothing to gain"
            )
            continue
        for budget_s in args.budgets:
            found = search(model, args.target, budget_s, keep=1 / 3)
            seconds = found.compile_s + found.measure_s
            gain = whole.gain(found.tuned)
            share = whole.share(gain)
            numbers = (f"{whole.largest:.2f}", f"{budget_s:g} s", f"{seconds:.0f}", f"{gain:.2f}", f"{share:.0%}")  # fmt: skip
            shown.add_row(model, str(len(whole.ms)), *numbers)
            if share >= ENOUGH:
                break
    Console().print(shown)


def search(model: str, target: str, budget_s: float, keep: float) -> Report:
    """Search for a model with a budget; return the report. Exits if the run fails."""
    of = Cell.of(Kind.TUNING, model=model, target=target)
    path = Path(STAGES["tune"].path(of, REPORT))
    command = [
        *(sys.executable, "-m", "snakemake", "--cores", "all", str(path), "--config"),
        *(f"models={model}", f"targets={target}"),
        f"tune={json.dumps({'budget_s': budget_s, 'keep': keep, 'specs': 0})}",
    ]
    print("$", *command, file=sys.stderr)
    done = subprocess.run([*command, "--forcerun", "tune_iree"], check=False)
    if done.returncode != 0 or not path.stat().st_size:
        exits.fail(f"{model}: the search has failed; see {path.parent}/log.txt")
    return report.read(atomic.read_json(path))


class Latencies:
    """Milliseconds of every candidate that has passed, by name; `default`: of the fastest configured one."""

    def __init__(self, ms: dict[str, float], configured: Sequence[str]) -> None:
        self.ms = ms
        self.default = min(ms[name] for name in configured if name in ms)

    @property
    def largest(self) -> float:
        """The largest gain over what is configured."""
        return self.default / min(self.ms.values())

    def gain(self, name: str | None) -> float:
        """The gain of a candidate; 1 for one that is not known."""
        return self.default / self.ms[name] if name in self.ms else 1.0

    def share(self, gain: float) -> float:
        """The share of the largest gain; 1 if what is configured is the fastest."""
        return math.log(gain) / math.log(self.largest) if self.largest > 1 else 1.0


def latencies(report: Report) -> Latencies:
    """The latencies of an exhaustive search, of the last round that all modules took part in."""
    passed = [one for one in report.candidates if one.rounds]
    last = min(len(one.rounds) for one in passed)
    ms = {one.name: one.rounds[last - 1].median_ms for one in passed}
    return Latencies(ms, [one.name for one in passed if one.configured])


if __name__ == "__main__":
    main()
