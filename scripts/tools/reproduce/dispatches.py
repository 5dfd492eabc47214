"""The distinct dispatches of a program, each as a separate program, and tests of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scripts.iree.tools import Compiler
from scripts.tools.profile.sites import Site
from scripts.tools.reproduce import mismatch
from scripts.tools.reproduce.mismatch import NoOutputs
from scripts.tools.reproduce.reduced_program import Program

PROGRAM, REPORT, TESTED = "program.mlir", "dispatches.json", "results.json"
RIGHT_DEVICE = "local-task"
"""Where the right outputs are computed."""
LONGEST_S = 60.0
"""Of one compilation or call."""
RIGHT, NOT_COMPARED = "right", mismatch.NOT_COMPARED
"""What a test may say, beside `wrong`, `does not compile` and `does not run`."""
DETAIL = 1000
"""Characters of a message that are kept."""


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
class Right:
    """How the right outputs of dispatches are computed: on a CPU."""

    compiler: Compiler
    threads: int

    def write(self, text: str, folder: Path, deadline: float) -> dict[str, Any]:
        """Write a dispatch into a new folder, with inputs and right outputs; return what the report says about it. `unknown`: why
        it has no right outputs, or ""."""
        folder.mkdir()
        (folder / PROGRAM).write_text(text, encoding="utf-8")
        program = Program(text)
        said: dict[str, Any] = {
            "operations": dict(Counter(map(program.name, program.operations))),
            "outputs": 0,
            "largest_value": None,
            "unknown": "",
        }
        try:
            given, count = mismatch.interface(text)
            mismatch.save(folder, input=given)
            limit_s = _limit_s(deadline)
            right = mismatch.outputs(
                self.compiler, text, given, count, RIGHT_DEVICE, self.threads, limit_s
            )
        except NoOutputs as error:
            at = "" if error.status == NOT_COMPARED else f"at O0 it {error.status}: "
            return {**said, "unknown": f"{at}{error}".strip()[:DETAIL]}
        if not all(np.isfinite(array.astype(np.float64)).all() for array in right):
            return {**said, "unknown": "the right outputs have values that are not finite"}
        mismatch.save(folder, expected=right)
        scale = max(mismatch.distance(array, array)[1] for array in right)
        return {**said, "outputs": count, "largest_value": scale}


@dataclass(frozen=True)
class Test:
    """What dispatches are tested with. `missing`: why programs cannot run on the device, or ""."""

    compiler: Compiler
    device: str
    threads: int
    missing: str

    def outcome(self, folder: Path, said: Mapping[str, Any], deadline: float) -> dict[str, Any]:
        """Test the dispatch in a folder, of which its report says this: `status`, `detail` and `largest_difference`. The module
        is left in the folder of the compiler."""
        try:
            return {"largest_difference": None, **self._compared(folder, said, deadline)}
        except NoOutputs as error:
            detail = str(error).strip()[:DETAIL]
            return {"status": error.status, "detail": detail, "largest_difference": None}

    def _compared(self, folder: Path, said: Mapping[str, Any], deadline: float) -> dict[str, Any]:
        """Whether the outputs are right. Raises NoOutputs."""
        text = (folder / PROGRAM).read_text(encoding="utf-8")
        limit_s = _limit_s(deadline)
        if said["unknown"] or self.missing:
            module = self.compiler.folder / mismatch.MODULE
            compiled = self.compiler.run(text, limit_s, module)
            if compiled.returncode != 0:
                return {"status": "does not compile", "detail": compiled.log[:DETAIL]}
            why = said["unknown"] or f"it compiles; {self.missing}"
            return {"status": NOT_COMPARED, "detail": why}
        given, right = (mismatch.saved(folder, name) for name in ("input", "expected"))
        computed = mismatch.outputs(
            self.compiler, text, given, len(right), self.device, self.threads, limit_s
        )
        largest = max(mismatch.distance(*pair)[0] for pair in zip(right, computed, strict=True))
        if any(map(mismatch.differs, right, computed)):
            mismatch.save(folder, computed=computed)
            detail = f"outputs differ by {largest:.3g}, where the largest value is {said['largest_value']:.3g}"
            return {"status": "wrong", "detail": detail, "largest_difference": largest}
        return {"status": RIGHT, "detail": "", "largest_difference": largest}


def _limit_s(deadline: float) -> float:
    """Seconds for a compilation or call. Raises NoOutputs if there are none left."""
    limit_s = min(deadline - time.monotonic(), LONGEST_S)
    if limit_s < 1:
        raise NoOutputs(NOT_COMPARED, "the time for all dispatches was over (--budget)")
    return limit_s
