"""How often intervals of few generations are wrong, and how many decisions only the noise of the group makes (docs/timing_errors.md):

    python -m benchmarks.simulated_intervals

Latencies of six members are drawn with independent normal logarithms. Their standard deviation is 2 % per generation, and three times
that for one of them.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
from unittest import mock

from scripts.measure.timing import ratios

GENERATIONS = (3, 4, 5, 8, 12)
MEMBERS, NOISE, NOISY = 6, 0.02, 3.0
DIFFERENCE = 1.05
"""How many times slower each second member is, where decisions are counted."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--groups", type=int, default=2_000, help="simulated groups per row")
    groups = parser.parse_args().groups
    print("| generations | wrong: equal members | wrong: with the noisy one | decided by the group's noise alone |")  # fmt: skip
    print("| --: | --: | --: | --: |")
    with mock.patch.object(ratios, "LEAST", 2):
        for count in GENERATIONS:
            shares = simulated(count, groups, random.Random(count))
            print(f"| {count} | {' | '.join(f'{100 * share:.1f} %' for share in shares)} |")


def simulated(generations: int, groups: int, rng: random.Random) -> tuple[float, float, float]:
    """The shares of wrong ratios among equal members, and with the noisy one; of decisions about members that differ by DIFFERENCE,
    the share that the ratio's own generations do not make."""
    wrong: dict[bool, list[bool]] = {False: [], True: []}
    by_noise_alone: list[bool] = []
    for _ in range(groups):
        values = {
            f"{member}": [
                math.exp(rng.gauss(0, NOISE * (1 if member else NOISY))) for _ in range(generations)
            ]
            for member in range(MEMBERS)
        }
        noise = ratios.noise(values)
        for a, b in itertools.combinations(values, 2):
            wrong[a == "0"].append(_excludes_1(values[a], values[b], noise))
            if a != "0":
                slower = [DIFFERENCE * value for value in values[b]]
                if _excludes_1(slower, values[a], noise):
                    by_noise_alone.append(not _excludes_1(slower, values[a], None))
    return tuple(sum(flags) / len(flags) for flags in (wrong[False], wrong[True], by_noise_alone))  # type: ignore[return-value]


def _excludes_1(base: list[float], row: list[float], noise: float | None) -> bool:
    difference = ratios.paired(base, row, noise)
    assert difference is not None
    interval = difference.interval()
    return not interval.low <= 1 <= interval.high


if __name__ == "__main__":
    main()
