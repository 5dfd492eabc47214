"""Calibrates the change points of a history, and states how many changes and drifts they find.

`penalties` simulates series without a change and prints the penalty that PENALTY of scripts/tools/compare/changes.py must be at least, by the
number of points. `rates` prints the false
alarms and the share of changes and drifts that are found, for docs/history.md.

The logarithms of a series are normal around their level. The variance of a point is the stated one times DF / χ²(DF):
a series may be calmer or noisier than its measurements say.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np

from scripts.tools.compare import changes

COUNTS = (4, 5, 6, 8, 10, 14, 20, 30, 50, 100, 200)
"""Points of the simulated series."""
STATED = 0.02
"""Standard deviation of a point, as its measurement states it; the penalties do not depend on it."""
SEED = 20261122


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.change_points", description=__doc__)
    parser.add_argument("what", choices=("penalties", "rates"))
    parser.add_argument("--series", type=int, default=20_000, help="simulated per row")
    args = parser.parse_args()
    rng = np.random.default_rng(SEED)
    if args.what == "penalties":
        for count in COUNTS:
            print(f"{count} points: {penalty(rng, count, args.series):.1f}", flush=True)
    else:
        rates(rng, args.series)


def noise(rng: np.random.Generator, count: int) -> np.ndarray:
    """The logarithms of a series without a change."""
    scale = STATED * math.sqrt(changes.DF / rng.chisquare(changes.DF))
    return rng.normal(0.0, scale, count)


def penalty(rng: np.random.Generator, count: int, number: int) -> float:
    """The penalty with which a share ALARMS of series of so many points has a change or a drift."""
    needed = [least_penalty(noise(rng, count)) for _ in range(number)]
    return float(np.quantile(needed, 1 - changes.ALARMS))


def least_penalty(logs: np.ndarray) -> float:
    """The penalty from which on a series is described by one level."""

    def cost(left: float) -> float:
        return changes.cost(left, len(logs), STATED**2)

    none = cost(changes.rss(logs, [len(logs)]))
    gains = [
        (none - cost(changes.rss(logs, found))) / (len(found) - 1)
        for found in changes.segmentations(logs)
    ]
    return max([*gains, none - cost(changes.line(logs)[1])])


def rates(rng: np.random.Generator, number: int) -> None:
    """Print how many of `number` series have a finding, by the shape of the series."""
    shapes: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "no change": lambda x: 0 * x,
        "change of 3 %": lambda x: math.log(1.03) * (x >= 0.5),
        "change of 5 %": lambda x: math.log(1.05) * (x >= 0.5),
        "change of 10 %": lambda x: math.log(1.10) * (x >= 0.5),
        "change of 20 %": lambda x: math.log(1.20) * (x >= 0.5),
        "drift of 5 % in all": lambda x: math.log(1.05) * x,
        "drift of 10 % in all": lambda x: math.log(1.10) * x,
        "one outlier of 50 %": lambda x: math.log(1.5) * (np.arange(len(x)) == len(x) // 2),
    }
    counts = (4, 6, 10, 20, 50)
    print("| series | " + " | ".join(f"{count} runs" for count in counts) + " |")
    print("| --- | " + " | ".join("---:" for _ in counts) + " |")
    for name, shape in shapes.items():
        shares = [found_share(rng, count, shape, number) for count in counts]
        print(
            f"| {name} | " + " | ".join(f"{100 * one:.3g} %" for one in shares) + " |", flush=True
        )


def found_share(
    rng: np.random.Generator, count: int, shape: Callable[[np.ndarray], np.ndarray], number: int
) -> float:
    """The share of series of a shape in which something is found."""
    level = shape(np.arange(count) / (count - 1))
    stated = [STATED**2] * count
    found = [
        changes.find(np.exp(level + noise(rng, count)).tolist(), stated) for _ in range(number)
    ]
    return float(np.mean([bool(one.changes or one.drift) for one in found]))


if __name__ == "__main__":
    main()
