"""Test each distinct dispatch of a program: compile it with some flags, run it on a device, and compare its outputs with right ones.

With a program, the dispatches are written first, each as a program of its own with random inputs. A dispatch is written as the
operations of the program that the compiler has put into it, so that the whole compiler is tested and not only its code generation.
The right outputs are those of `right_flags` on a CPU.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scripts.core import atomic, commands, exits, requests
from scripts.core.commands import option
from scripts.core.requests import Folders
from scripts.iree import session
from scripts.iree.backends import runs_on_cpu
from scripts.iree.tools import Compiler
from scripts.tools.profile import sites
from scripts.tools.profile.sites import PhaseError, Site
from scripts.tools.reproduce import mismatch
from scripts.tools.reproduce.mismatch import NoOutputs
from scripts.tools.reproduce.reduced_program import NotReducible, Program

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


def _write_one(
    compiler: Compiler, threads: int, text: str, folder: Path, deadline: float
) -> dict[str, Any]:
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
        right = mismatch.outputs(compiler, text, given, count, RIGHT_DEVICE, threads, limit_s)
    except NoOutputs as error:
        at = "" if error.status == NOT_COMPARED else f"at O0 it {error.status}: "
        return {**said, "unknown": f"{at}{error}".strip()[:DETAIL]}
    if not all(np.isfinite(array.astype(np.float64)).all() for array in right):
        return {**said, "unknown": "the right outputs have values that are not finite"}
    mismatch.save(folder, expected=right)
    scale = max(mismatch.distance(array, array)[1] for array in right)
    return {**said, "outputs": count, "largest_value": scale}


def _tested(
    args: DispatchesRequest, compiler: Compiler, test: Mapping[str, Any], deadline: float
) -> dict[str, Any]:
    """Test a dispatch, of which its report says this: `status`, `detail` and `largest_difference`. The module is left in the
    folder of the compiler."""
    folder = args.tests / test["functions"][0]
    status, detail, largest = RIGHT, "", None
    try:
        text, limit_s = (folder / PROGRAM).read_text(encoding="utf-8"), _limit_s(deadline)
        if why := test["unknown"] or _missing(args.device, args.threads):
            compiled = compiler.run(text, limit_s, compiler.folder / mismatch.MODULE)
            if compiled.returncode != 0:
                raise NoOutputs("does not compile", compiled.log)
            raise NoOutputs(NOT_COMPARED, why if test["unknown"] else f"it compiles; {why}")
        given, right = (mismatch.saved(folder, name) for name in ("input", "expected"))
        computed = mismatch.outputs(
            compiler, text, given, len(right), args.device, args.threads, limit_s
        )
        largest = max(mismatch.distance(*pair)[0] for pair in zip(right, computed, strict=True))
        if any(map(mismatch.differs, right, computed)):
            mismatch.save(folder, computed=computed)
            status = "wrong"
            detail = f"outputs differ by {largest:.3g}, where the largest value is {test['largest_value']:.3g}"
    except NoOutputs as error:
        status, detail = error.status, str(error).strip()[:DETAIL]
    return {"status": status, "detail": detail, "largest_difference": largest}


def _limit_s(deadline: float) -> float:
    """Seconds for a compilation or call. Raises NoOutputs if there are none left."""
    limit_s = min(deadline - time.monotonic(), LONGEST_S)
    if limit_s < 1:
        raise NoOutputs(NOT_COMPARED, "the time for all dispatches was over (--budget)")
    return limit_s


@dataclass(frozen=True, kw_only=True)
class DispatchesRequest:
    """`tests`: a folder with one folder per dispatch; they are there if there is no `program`. `flags`: all of iree-compile. `right_flags`:
    those for a CPU with right results. `device`: URI of IREE. `budget`: seconds to write the dispatches, and to test them.
    `modules`: a folder for the modules of what is right."""

    tests: Path
    program: Path | None = None
    flags: list[str]
    right_flags: list[str] = option(factory=list)
    device: str = "local-task"
    threads: int = 1
    budget: float = 300.0
    modules: Path | None = None


def run_dispatches(args: DispatchesRequest, folders: Folders) -> None:
    """Write what came out, by folder."""
    with tempfile.TemporaryDirectory() as scratch:
        if args.program:
            _write(args, args.program, Path(scratch))
        deadline = time.monotonic() + args.budget
        said = {}
        compiler = Compiler(tuple(args.flags), Path(scratch))
        for test in atomic.read_json(args.tests / REPORT):
            name = test["functions"][0]
            said[name] = _tested(args, compiler, test, deadline)
            if args.modules and said[name]["status"] == RIGHT:
                shutil.copyfile(Path(scratch, mismatch.MODULE), args.modules / f"{name}.vmfb")
    atomic.write_json(folders.results / TESTED, said)


def _write(args: DispatchesRequest, program: Path, scratch: Path) -> None:
    """Write the dispatches of a program, and the report about them. Exits if there are none."""
    deadline = time.monotonic() + args.budget
    phases, right = scratch / "phases", scratch / "right"
    phases.mkdir()
    right.mkdir()
    try:
        dispatch_sites = sites.sites(program, args.flags, phases)
        parts = split(program.read_text(encoding="utf-8"), dispatch_sites)
    except (NotReducible, PhaseError) as error:
        exits.fail(f"{program}: {error}")
    if not parts:
        exits.fail(f"{program}: no dispatch computes operations of the program")
    compiler = Compiler(tuple(args.right_flags), right)
    tests = [
        {"functions": names}
        | _write_one(compiler, args.threads, part, args.tests / names[0], deadline)
        for part, names in parts.items()
    ]
    atomic.write_json(args.tests / REPORT, tests)


@functools.cache
def _missing(device: str, threads: int) -> str:
    """Why this machine cannot run programs for a device; "" if it can."""
    if runs_on_cpu(device):
        return ""
    try:
        session.device_info(device, threads)
    except session.NoDevice as error:
        return str(error)
    return ""


if __name__ == "__main__":
    commands.run(lambda: requests.run(DispatchesRequest, run_dispatches))
