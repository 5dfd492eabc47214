"""Replaces results of training steps by wrong ones and checks that the verification rejects them.

    .venvs/driver/bin/python -m benchmarks.wrong_steps results/gradients/conv results/gradients/bert

Reads the golden results that a run with `tests=train` has left. Each gradient and each change, one at a time, is
replaced by zeros, its negative, its elements in another order, itself × 1.05, and itself with 5 % of noise. A wrong
result is material if golden's own error against float64 is at most a thousandth of its root mean square: others
have no scale of their own (scaling.py). Prints per model how many material results pass, with each
result at its own scale as the workflow compares it, and with the scale of all gradients (or changes) together.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from scripts.core.tensors import CHANGE, GRADIENT
from scripts.measure.verify import scaling, torch_same
from scripts.measure.verify.torch_same import Tolerance
from scripts.measure.verify.verification import PASS
from scripts.measure.verify.verify import Check, Expected


def candidates(golden: np.ndarray, seed: int) -> Iterator[tuple[str, np.ndarray]]:
    """Wrong values for an array, by name; those that are equal to it are left out."""
    random = np.random.default_rng(seed)
    size = np.sqrt(np.mean(np.square(golden.astype(np.float64))))
    noise = 0.05 * size * random.standard_normal(golden.shape)
    found = {
        "zeros": np.zeros_like(golden),
        "negated": -golden,
        "shuffled": random.permutation(golden.reshape(-1)).reshape(golden.shape),
        "× 1.05": golden * np.asarray(1.05, golden.dtype),
        "5 % noise": (golden + noise).astype(golden.dtype),
    }
    for name, wrong in found.items():
        if not np.array_equal(wrong, golden):
            yield name, wrong


def passed(expected: Expected, tolerance: Tolerance) -> dict[str, list[tuple[str, str]]]:
    """The material wrong results, and those that pass by each way of scaling, as (result, candidate)."""
    names = [kind.name for kind in expected.types]
    labels = scaling.scale_of(names)
    scales = {
        "own": scaling.exponents(expected.golden, labels, expected.fp64),
        "group": scaling.exponents(expected.golden, labels),
    }
    found: dict[str, list[tuple[str, str]]] = {"material": [], "own": [], "group": []}
    for place, (name, golden, fp64) in enumerate(
        zip(names, expected.golden, expected.fp64 or (), strict=True)
    ):
        of_step = name.startswith((GRADIENT, CHANGE)) and scaling.is_floating(golden)
        if not of_step or not scaling.is_accurate(golden, fp64):
            continue
        for kind, wrong in candidates(golden, place):
            found["material"].append((name, kind))
            for scale, exponents in scales.items():
                shifted = [scaling.shift(one, exponents[place]) for one in (wrong, golden, fp64)]
                lists = [[one] for one in shifted]
                if torch_same.compare(*lists, tolerance).code == PASS:
                    found[scale].append((name, kind))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wrong_steps", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="folders of results/gradients/")
    parser.add_argument("--tol", type=float, help="default: that of training steps in float32")
    parser.add_argument("--verbose", action="store_true", help="name each result that passes")
    args = parser.parse_args()
    tolerance = Tolerance(args.tol or torch_same.TRAIN_TOLERANCES["f32"])
    print(
        "| model | material | pass | pass at the scale of the group |\n| --- | ---: | ---: | ---: |"
    )
    for folder in args.folders:
        check = Check(folder / "golden.npz", folder / "signature.json", {})
        found = passed(check.expected(), tolerance)
        numbers = [str(len(found[key])) for key in ("material", "own", "group")]
        print(f"| {' | '.join([folder.name, *numbers])} |", flush=True)
        if args.verbose:
            print_each(found)
        gc.collect()


def print_each(found: Mapping[str, list[tuple[str, str]]]) -> None:
    """The results that pass, a line each."""
    for scale in ("own", "group"):
        for name, kind in found[scale]:
            print(f"  {scale}: {name}, {kind}")


if __name__ == "__main__":
    main()
