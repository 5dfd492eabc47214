"""The dispatches of a program: which lines of its text each of them computes.

The compiler writes the program after each phase. At the end of dispatch creation, each dispatch contains its
operations, with the lines that they are of. In the flow phase it becomes a call of a function, in
the same order, and equal functions become one. In the stream phase it is a command; there are further
commands for encodings (data tiling).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from scripts.frontends.lowering.locations import Locations, below, lines_of
from scripts.iree.tools import compile_program

LAST = "stream"
"""The phase up to which the program is compiled. Code generation, which takes most of the time, comes later."""


class PhaseError(Exception):
    """The files of the phases are not as expected; says what was found."""


@dataclass(frozen=True)
class Site:
    """A dispatch of the program. `function`: the name that profiles have. `root`: the line of its own location.
    `lines`: those of its operations."""

    function: str
    root: int | None
    lines: tuple[int, ...]


def sites(program: Path, flags: Sequence[str], folder: Path) -> list[Site]:
    """The dispatches of one call, in the order of the program.

    Runs iree-compile with the `flags` of a target up to the phase LAST, with its files in `folder`. In locations, "-" is a program that
    came as bytecode. Exits as the compiler does if it fails. Raises PhaseError.
    """
    dumped = (f"--compile-to={LAST}", "--mlir-print-debuginfo", f"--dump-compilation-phases-to={folder}")  # fmt: skip
    compile_program(program, [*flags, *dumped])
    files = {str(program), "-"}
    created = [
        (lines_of([op], files), lines_of(_computing(op, files), files))
        for op in _operations(folder, "dispatch-creation")
        if op.name in ("flow.dispatch.workgroups", "flow.dispatch.region")
    ]
    called = [
        (_function(op), lines_of([op], files))
        for op in _operations(folder, "flow")
        if op.name == "flow.dispatch"
    ]
    if len(created) != len(called):
        raise PhaseError(
            f"{len(created)} dispatches were created and {len(called)} are called; expected as many"
        )
    bodies: dict[tuple[str, tuple[int, ...]], list[tuple[int, ...]]] = defaultdict(list)
    for (_, lines), (function, root) in zip(created, called, strict=True):
        bodies[function, root].append(lines)
    sites = []
    for op in _operations(folder, LAST):
        if op.name == "stream.cmd.dispatch" and not _in_initializer(op):
            function, root = _function(op), lines_of([op], files)
            known = bodies.get((function, root))
            lines = (known.pop(0) if len(known) > 1 else known[0]) if known else ()
            sites.append(Site(function, root[0] if root else None, lines or root))
    return sites


def nodes(site: Site, located: Locations) -> list[list[str | None]]:
    """The nodes that a dispatch computes (name, operator, module), that of its root first."""
    lines = (line for line in (site.root, *site.lines) if line in located.lines)
    origins = dict.fromkeys(located.lines[line] for line in lines if line is not None)
    return [[*astuple(origin)] for origin in origins]


def _operations(folder: Path, phase: str) -> Iterator[Any]:
    """Every operation of the program at the end of a phase."""
    from iree.compiler import ir

    files = list(folder.glob(f"*.{phase}.mlir"))
    if len(files) != 1:
        raise PhaseError(f"{folder} has {len(files)} files of phase {phase}, expected one")
    with ir.Context():
        module = ir.Module.parse(files[0].read_text(encoding="utf-8"))
        yield from below(module.operation)


_STRUCTURED = ("linalg.", "iree_linalg_ext.")
_MOVES = ("linalg.transpose", "linalg.copy", "linalg.broadcast", "linalg.pack", "linalg.unpack")


def _computing(dispatch: Any, files: Collection[str]) -> Iterator[Any]:
    """The operations of a dispatch that compute: structured ones, and what is fused into those of linalg, but not the
    constants with which results begin, nor what only moves data. (XLA gives all scatters one body, so it is of no one of them.)

    The result of one convolution is often laid out as the next one wants it, at the line of that one; and what is computed of each value on the way has
    its line too. So the line of an elementwise operation counts only if its body has none.
    """
    for op in below(dispatch):
        if op.name.startswith(_STRUCTURED) and op.name not in ("linalg.fill", "linalg.yield"):
            if _only_moves(op):
                continue
            body = [each for each in below(op) if each.name != "linalg.yield"] if op.name.startswith("linalg.") else []  # fmt: skip
            reduces = op.name != "linalg.generic" or "reduction" in str(
                op.attributes["iterator_types"]
            )
            if reduces or not lines_of(body, files):
                yield op
            yield from body


def _only_moves(op: Any) -> bool:
    """Whether an operation changes no value: its body, if it has one, only yields."""
    return op.name in _MOVES or (
        op.name == "linalg.generic" and [inner.name for inner in below(op)] == ["linalg.yield"]
    )


def _function(operation: Any) -> str:
    """The name of the function that a dispatch calls: `main_dispatch_1_matmul` of
    `@main_dispatch_1::@main_dispatch_1_matmul`."""
    return str(operation.attributes["entry_points"]).strip("[]").rsplit("@", 1)[-1].strip('"')


def _in_initializer(operation: Any) -> bool:
    parent = operation.parent
    return parent is not None and (parent.name == "util.initializer" or _in_initializer(parent))
