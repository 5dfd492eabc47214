"""Measure the overhead of tuning: how many seconds it takes to reach 90 % of the gain of an exhaustive search.

    python -m benchmarks.tuner --models vit gpt2-decode graphsage

For each model, an exhaustive search (`tune: {keep: 1}`: modules leave only if they are slower beyond their interval) takes
`--exhaustive` seconds first. That gives the gain of every candidate over what is configured. Then the tuner searches with
each of the `--budgets`. The candidate that it chooses counts with its gain in the exhaustive search. The share of the gain that is reached is a ratio of logarithms: 0 is
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
from pathlib import Path

from rich.console import Console
from rich.table import Table

from scripts.config.cell import Cell, Kind
from scripts.config.stages import REPORT, STAGES
from scripts.core import atomic, exits
from scripts.tools.variants import candidates
from scripts.tools.variants.candidates import Report

ENOUGH = 0.9
"""The share of the gain that is to be reached."""
LEAST = 1.05
"""The least gain of which a share says something: smaller ones are within the intervals of most searches."""


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
        gains = gains_of(search(model, args.target, args.exhaustive, keep=1))
        largest = max(gains.values())
        if largest < LEAST:
            shown.add_row(model, str(len(gains)), f"{largest:.2f}", "", "", "", "nothing to gain")
            continue
        for budget_s in args.budgets:
            found = search(model, args.target, budget_s, keep=1 / 3)
            seconds = found.compile_s + found.measure_s
            gain = gains.get(found.tuned or "", 1.0)
            share = math.log(gain) / math.log(largest)
            numbers = (f"{largest:.2f}", f"{budget_s:g} s", f"{seconds:.0f}", f"{gain:.2f}", f"{share:.0%}")  # fmt: skip
            shown.add_row(model, str(len(gains)), *numbers)
            if share >= ENOUGH:
                break
    Console().print(shown)


def search(model: str, target: str, budget_s: float, keep: float) -> Report:
    """Search for a model with a budget; return the report. Exits if the run fails."""
    of = Cell.of_kind(Kind.TUNING, model=model, target=target)
    path = Path(STAGES["tune"].path(of, REPORT))
    command = [
        *(sys.executable, "-m", "snakemake", "--cores", "all", str(path), "--config"),
        *(f"models={model}", f"targets={target}"),
        f"tune={json.dumps({'budget_s': budget_s, 'keep': keep})}",
    ]
    print("$", *command, file=sys.stderr)
    done = subprocess.run([*command, "--forcerun", "tune_iree"], check=False)
    if done.returncode != 0 or not path.stat().st_size:
        exits.fail(f"{model}: the search has failed; see {path.parent}/log.txt")
    return candidates.read(atomic.read_json(path))


def gains_of(report: Report) -> dict[str, float]:
    """How many times faster than the fastest configured candidate each one that was timed is, by name."""
    timed = {one.name: one.timing for one in report.candidates if one.timing}
    return {name: one.speedup for name, one in timed.items() if one.speedup}


if __name__ == "__main__":
    main()
