"""The results of a training step's program, as they are compared with golden.

A program returns the new value of each weight. A weight of 0.1 that changes by 1e-6 is almost the same as one that
does not change, so the changes are compared: new value minus the value in the archive.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from scripts.core import tensors
from scripts.core.tensors import CHANGE, LOSS, Signature, TensorType
from scripts.measure.verify import verification
from scripts.measure.verify.verification import Verification
from scripts.measure.verify.verify import Expected

STEPS = 10
"""How many successive training steps are followed."""
LOSSES = "losses"
"""The key of eager's losses in golden.npz: one per step, as float64."""
ROUNDING = {"f32": 1e-5, "f16": 2e-3, "bf16": 1e-2}
"""The part of a loss by which correct programs may differ after some steps, by dtype."""
FIRST = 3.0
"""How many times the error of the first loss, which was verified, a later loss may have."""
MOST = 0.5
"""The share of golden values that must change where a result that does not change at all is wrong. A change of less than
a unit in the last place is rounded to none in some values."""

Step = Callable[[Mapping[str, np.ndarray]], Sequence[np.ndarray]]
"""Runs a program with other weights (bytes by key, of those that differ from the archive's)."""


def names(types: Sequence[TensorType]) -> list[str] | None:
    """The names of the results of a training step; None for those of a forward pass, which have no loss."""
    listed = [kind.name for kind in types]
    return listed if LOSS in listed else None


def compared(
    outputs: Sequence[np.ndarray], signature: Signature, weights: Path
) -> Sequence[np.ndarray]:
    """The results of a program as golden has them: in place of each new value its change.

    `weights`: the archive that the program reads. Other results are returned as they are, and so are those of
    another number or of other shapes, which verification reports.
    """
    if not names(signature.outputs) or len(outputs) != len(signature.outputs):
        return outputs
    stored = tensors.read_archive(weights)
    before = {
        CHANGE + kind.name: stored[kind.name].view(tensors.native(kind.dtype)).reshape(kind.shape)
        for kind in signature.parameters
        if kind.name in stored
    }

    def change(output: np.ndarray, old: np.ndarray | None) -> np.ndarray:
        if old is None or old.shape != output.shape or old.dtype != output.dtype:
            return output
        return output ^ old if output.dtype == bool else output - old

    pairs = zip(outputs, signature.outputs, strict=True)
    return [change(output, before.get(kind.name)) for output, kind in pairs]


def new_weights(outputs: Sequence[np.ndarray], signature: Signature) -> dict[str, np.ndarray]:
    """What a program's results leave for the next step: bytes by key."""
    return {
        kind.name.removeprefix(CHANGE): np.ascontiguousarray(output).reshape(-1).view(np.uint8)
        for output, kind in zip(outputs, signature.outputs, strict=True)
        if kind.name.startswith(CHANGE)
    }


def require_changes(
    passed: Verification, compared: Sequence[np.ndarray], expected: Expected
) -> Verification:
    """A passed verification, or FAIL if a program leaves a weight as it was that the eager step changes.

    Changes are compared at the scale of their group, so that of a weight that changes little could be missing.
    """
    if passed.code != verification.PASS:
        return passed
    for kind, output, golden in zip(expected.types, compared, expected.golden, strict=True):
        changed = np.count_nonzero(golden)
        wanted = kind.name.startswith(CHANGE) and changed >= MOST * max(golden.size, 1)
        if wanted and not output.any():
            problem = f"{kind.name}: none, expected {changed} of {golden.size} values to change"
            return dataclasses.replace(passed, code=verification.FAIL, detail=problem)
    return passed


def follow(
    passed: Verification,
    first: Sequence[np.ndarray],
    step: Step,
    signature: Signature,
    golden: np.ndarray,
) -> Verification:
    """A passed verification, after comparing the losses of further steps with eager's as well.

    `first`: the results of the first step. `golden`: eager's losses, [steps], up to the first that is not finite. A
    loss is right if it differs by at most the tolerance of what eager's losses have moved so far, plus what rounding
    and the error of the first loss explain.
    """
    if passed.code != verification.PASS:
        return passed
    golden = golden[: int(np.logical_and.accumulate(np.isfinite(golden)).sum())]
    place = [kind.name for kind in signature.outputs].index(LOSS)
    outputs, problem, matched, base = first, "", 0, 0.0
    losses: list[float | None] = []
    for number, expected in enumerate(golden):
        if number:
            outputs = step(new_weights(outputs, signature))
        loss = float(np.asarray(outputs[place], np.float64))
        losses.append(loss if np.isfinite(loss) else None)
        error = abs(loss - expected)
        if not number:
            base = FIRST * error
        moved = float(np.abs(golden[: number + 1] - golden[0]).max())
        if error <= base + passed.tol * moved + ROUNDING[signature.dtype] * abs(expected):
            matched += 1
        elif not problem:
            problem = (
                f"loss of step {number + 1} of {len(golden)}: {loss:.7g}, expected {expected:.7g}"
            )
    return dataclasses.replace(
        passed,
        code=verification.FAIL if problem else verification.PASS,
        detail=problem or passed.detail,
        train_steps=matched,
        train_expected=len(golden),
        losses=tuple(losses),
        golden_losses=tuple(golden.tolist()),
    )
