"""The distinct dispatches of a program, each as a program of its own, and tests of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scripts.features.profile.sites import Site
from scripts.features.reproduce.reduction import mismatch
from scripts.features.reproduce.reduction.mismatch import NoOutputs
from scripts.features.reproduce.reduction.reduced_program import Program
from scripts.iree.tools import Compiler

PROGRAM, REPORT = "program.mlir", "dispatches.json"
RIGHT_DEVICE = "local-task"
"""Where the right outputs are computed."""
LONGEST_S = 60.0
"""Of one compilation or call."""


def split(text: str, dispatches: Iterable[Site]) -> Mapping[str, list[str]]:
    """The programs of the distinct dispatches, with the names of the functions of each.

    Operations that no dispatch names, such as reshapes and conversions that the compiler has changed into others, are in each
    dispatch that uses their results; if there is none, in that whose results they use. Raises NotReducible.
    """
    program = Program(text)
    named: dict[str, set[int]] = {}
    for site in dispatches:
        operations = {at for at in program.at_lines(site.lines) if not program.is_weight(at)}
        if operations:
            named.setdefault(site.function, operations)
    # Of the functions that are called more than once, only the first call is above.
    everywhere = {at for site in dispatches for at in program.at_lines(site.lines)}
    left = {at for at in program.operations if at not in everywhere and not program.is_weight(at)}
    for operations in named.values():
        operations |= _before(program, operations, left)
    for at in sorted(left.difference(*named.values())):
        for operations in named.values():
            if program.behind(at) & operations:
                operations.add(at)
    parts: dict[str, list[str]] = {}
    for function, operations in named.items():
        parts.setdefault(program.part(operations), []).append(function)
    return parts


def _before(program: Program, operations: Collection[int], among: Collection[int]) -> set[int]:
    """Those `among` operations whose results some operations use, also through others of them."""
    reached: set[int] = set()
    todo = list(operations)
    while todo:
        new = (program.behind(todo.pop()) & set(among)) - reached
        reached |= new
        todo += new
    return reached


@dataclass(frozen=True)
class Test:
    """What dispatches are tested with. `missing`: why programs cannot run on the device, or ""."""

    tested: Compiler
    right: Compiler
    device: str
    threads: int
    missing: str

    def of(self, text: str, folder: Path, deadline: float) -> dict[str, Any]:
        """Write a dispatch into a new folder and test it; return what the report says of it."""
        folder.mkdir()
        (folder / PROGRAM).write_text(text, encoding="utf-8")
        program = Program(text)
        said: dict[str, Any] = {
            "operations": dict(Counter(map(program.name, program.operations))),
            "outputs": 0,
            "largest_difference": None,
            "largest_value": None,
        }
        try:
            said |= self._compared(text, folder, deadline)
        except NoOutputs as error:
            said |= {"status": error.status, "detail": str(error).strip()[:1000]}
        return said

    def _compared(self, text: str, folder: Path, deadline: float) -> dict[str, Any]:
        """Whether the outputs are right. Raises NoOutputs."""
        limit_s = min(deadline - time.monotonic(), LONGEST_S)
        if limit_s < 1:
            raise NoOutputs("not compared", "the time for all dispatches was over (--budget)")
        given, count = mismatch.interface(text)
        try:
            right = mismatch.outputs(
                self.right, text, given, count, RIGHT_DEVICE, self.threads, limit_s
            )
        except NoOutputs as error:
            raise NoOutputs("not compared", f"at O0 it {error.status}: {error}") from error
        if not all(np.isfinite(one.astype(np.float64)).all() for one in right):
            raise NoOutputs("not compared", "the right outputs have values that are not finite")
        mismatch.save(folder, input=given, expected=right)
        scale = max(mismatch.distance(one, one)[1] for one in right)
        said = {"outputs": count, "largest_value": scale}
        if self.missing:
            compiled = self.tested.run(text, limit_s)
            if compiled.returncode == 0:
                return {**said, "status": "not compared", "detail": f"it compiles; {self.missing}"}
            return {**said, "status": "does not compile", "detail": compiled.log[:1000]}
        try:
            computed = mismatch.outputs(
                self.tested, text, given, count, self.device, self.threads, limit_s
            )
        except NoOutputs as error:
            return {**said, "status": error.status, "detail": str(error).strip()[:1000]}
        largest = max(mismatch.distance(*pair)[0] for pair in zip(right, computed, strict=True))
        if any(map(mismatch.differs, right, computed)):
            mismatch.save(folder, computed=computed)
            detail = f"outputs differ by {largest:.3g}, where the largest value is {scale:.3g}"
            return {**said, "status": "wrong", "detail": detail, "largest_difference": largest}
        return {**said, "status": "right", "detail": "", "largest_difference": largest}
