"""Single dispatches of a program, as the compiler writes them for benchmarks, and the operation whose lowering
configuration decides about each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.core import process
from scripts.features.variants.specs.lowering_config import LoweringConfig
from scripts.iree.tools import tool

if TYPE_CHECKING:
    from iree.compiler import ir

CONFIG, ROOT = "lowering_config", "root_op"
"""Attributes of the operation that the configuration of a dispatch belongs to."""
UNKNOWN = "<<UNKNOWN SSA VALUE>>"
"""How a value is printed that an operation uses in its region and that is defined outside, such as a constant. A matcher
cannot have it."""


@dataclass(frozen=True)
class Operation:
    """The root operation of dispatches, without what it is computed from. `text`: it, with operands `%arg0`, …;
    `types`: their types. `pipeline`: the translation_info of its function."""

    text: str
    types: tuple[str, ...]
    pipeline: str
    config: LoweringConfig

    @property
    def largest(self) -> int:
        """The longest static dimension of an operand."""
        shapes = [re.findall(r"\d+(?=x)", one) for one in self.types]
        return max((int(size) for shape in shapes for size in shape), default=1)


@dataclass(frozen=True)
class Dispatch:
    """A dispatch. `functions`: the names that profiles have; `program`: the file of its benchmark."""

    functions: tuple[str, ...]
    program: Path
    operation: Operation


def configured(
    program: Path, flags: Sequence[str], folder: Path
) -> tuple[list[Dispatch], list[str]]:
    """The dispatches of a program whose configuration can be chosen, and the functions of the others. See
    write_benchmarks."""
    found: list[Dispatch] = []
    others: list[str] = []
    for path in write_benchmarks(program, flags, folder):
        functions, operation = read(path.read_text(encoding="utf-8"))
        if operation:
            found.append(Dispatch(functions, path, operation))
        else:
            others += functions
    return found, others


def write_benchmarks(program: Path, flags: Sequence[str], folder: Path) -> list[Path]:
    """Let the compiler write the benchmarks of a program's dispatches, with the configurations that they have.

    Runs iree-compile with the `flags` of a target up to the choice of configurations. Exits as the compiler does if it
    fails.
    """
    run = process.run_tool(
        [
            *(tool("iree-compile"), *flags, "--compile-to=executable-configurations"),
            "--iree-codegen-add-tuner-attributes",
            f"--iree-hal-dump-executable-benchmarks-to={folder}",
            *(str(program), "-o", "/dev/null"),
        ]
    )
    if run.returncode != 0:
        process.exit_like(run.returncode)
    return sorted(folder.glob("*.mlir"))


def read(text: str) -> tuple[tuple[str, ...], Operation | None]:
    """The names of a benchmark's functions, and its root operation; None if it has none, more than one, or one that cannot
    be matched or whose configuration is not of tile sizes."""
    from iree.compiler import ir
    from iree.compiler.dialects import iree_codegen

    with ir.Context():
        module = ir.Module.parse(text)
        functions = tuple(_functions(module))
        roots = iree_codegen.get_tuner_root_ops(module)
        if len(roots) != 1 or not (config := _config(roots[0])):
            return functions, None
        operation, types = _alone(roots[0])
        if UNKNOWN in operation:
            return functions, None
        return functions, Operation(operation, types, _pipeline(roots[0]), config)


def configs(text: str) -> tuple[tuple[str, ...], set[LoweringConfig]]:
    """The names of a benchmark's functions, and the configurations of all its operations. One that comes from a tuning
    spec is not marked as that of a root operation."""
    from iree.compiler import ir

    found: set[LoweringConfig] = set()

    def visit(op: ir.Operation) -> ir.WalkResult:
        if config := _config(op):
            found.add(config)
        return ir.WalkResult.ADVANCE

    with ir.Context():
        module = ir.Module.parse(text)
        module.operation.walk(visit)
        return tuple(_functions(module)), found


def with_config(text: str, config: LoweringConfig) -> str:
    """A benchmark whose root operation has another configuration. Those of the other operations are left out, as they
    are where a tuning spec has set that of the root."""
    from iree.compiler import ir

    with ir.Context():
        module = ir.Module.parse(text)

        def change(op: ir.Operation) -> ir.WalkResult:
            if CONFIG in op.attributes:
                if ROOT in op.attributes:
                    op.attributes[CONFIG] = ir.Attribute.parse(str(config))
                else:
                    del op.attributes[CONFIG]
            return ir.WalkResult.ADVANCE

        module.operation.walk(change)
        return str(module)


def benchmarked(text: str) -> str:
    """The name of the first function that iree-benchmark-module can call."""
    found = re.search(r"util\.func public @(\"[^\"]+\"|[\w$.-]+)\(", text)
    return found[1].strip('"') if found else ""


def _functions(module: ir.Module) -> Iterator[str]:
    """Yield the names of the functions that are dispatched."""
    from iree.compiler import ir

    found: list[str] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "hal.executable.export":
            found.append(ir.StringAttr(op.attributes["sym_name"]).value)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    yield from found


def _config(root: ir.Operation) -> LoweringConfig | None:
    """The configuration of an operation; None if it has none of tile sizes."""
    attributes = root.operation.attributes
    return LoweringConfig.parse(str(attributes[CONFIG])) if CONFIG in attributes else None


def _pipeline(root: ir.Operation) -> str:
    """The translation_info of the function that has an operation."""
    op = root.operation
    while op.name != "func.func":
        op = op.parent.operation
    return str(op.attributes["translation_info"])


def _alone(root: ir.Operation) -> tuple[str, tuple[str, ...]]:
    """The text of an operation without its configuration, as a function's only one, and the types of its operands."""
    from iree.compiler import ir

    types = tuple(str(one.type) for one in root.operation.operands)
    arguments = ", ".join(f"%arg{number}: {one}" for number, one in enumerate(types))
    made = ir.Module.parse(f"func.func @f({arguments}) {{ return }}")
    block = made.body.operations[0].regions[0].blocks[0]
    copy = root.operation.clone(ir.InsertionPoint.at_block_begin(block))
    for name in (CONFIG, ROOT):
        del copy.attributes[name]
    for number, argument in enumerate(block.arguments):
        copy.operands[number] = argument
    return copy.get_asm(use_local_scope=True), types
