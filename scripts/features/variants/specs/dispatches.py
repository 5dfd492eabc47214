"""Single dispatches of a program, as the compiler writes them for benchmarks, and the operation whose lowering
configuration decides about each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.core import process
from scripts.iree.tools import tool

if TYPE_CHECKING:
    from iree.compiler import ir

CONFIG, ROOT = "lowering_config", "root_op"
"""Attributes of the operation that the configuration of a dispatch belongs to."""
UNKNOWN = "<<UNKNOWN SSA VALUE>>"
"""How a value is printed that an operation uses in its region and that is defined outside, such as a constant. A matcher
cannot have it."""
_ATTRIBUTE = re.compile(r"#iree_cpu\.lowering_config<(?P<levels>[^<>]*)>")
_LEVEL = re.compile(r"(?P<name>\w+) = \[(?P<sizes>[\d, ]*)\]")


@dataclass(frozen=True)
class LoweringConfig:
    """An `#iree_cpu.lowering_config`: the levels (`distribution`, `vector_common_parallel`, …) with a tile size for each
    loop of the operation. 0: the loop is not tiled at that level."""

    levels: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def parse(cls, text: str) -> LoweringConfig | None:
        """The configuration that the compiler prints; None if it is of another kind, or has parts that are not sizes
        (such as scalable vectors)."""
        match = _ATTRIBUTE.fullmatch(text)
        if match is None:
            return None
        levels = tuple(
            (level["name"], tuple(int(size) for size in level["sizes"].split(",") if size.strip()))
            for level in _LEVEL.finditer(match["levels"])
        )
        config = cls(levels)
        return config if levels and str(config) == text else None

    def __str__(self) -> str:
        levels = ", ".join(f"{name} = [{', '.join(map(str, s))}]" for name, s in self.levels)
        return f"#iree_cpu.lowering_config<{levels}>"

    def neighbours(self, largest: int) -> Iterator[LoweringConfig]:
        """Yield the configurations in which one size is twice or half of what it is here.

        A size stays at least 1, and is not doubled if it is `largest` (the longest dimension of an operand) or more.
        Which of them the backend accepts is for the compiler to say.
        """
        for at, (name, sizes) in enumerate(self.levels):
            for loop, size in enumerate(sizes):
                for other in (size * 2 if size < largest else 0, size // 2):
                    if size and other:
                        changed = (*sizes[:loop], other, *sizes[loop + 1 :])
                        yield LoweringConfig(
                            (*self.levels[:at], (name, changed), *self.levels[at + 1 :])
                        )


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
        sizes = (int(size) for kind in self.types for size in re.findall(r"\d+(?=x)", kind))
        return max(sizes, default=1)


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
    dispatches: list[Dispatch] = []
    others: list[str] = []
    for path in write_benchmarks(program, flags, folder):
        functions, operation, _ = read(path.read_text(encoding="utf-8"))
        if operation:
            dispatches.append(Dispatch(functions, path, operation))
        else:
            others += functions
    return dispatches, others


def write_benchmarks(program: Path, flags: Sequence[str], folder: Path) -> list[Path]:
    """Let the compiler write the benchmarks of a program's dispatches, with the configurations that they have.

    Runs iree-compile with the `flags` of a target up to the choice of configurations. Exits as the compiler does if it
    fails.
    """
    process.require_tool(
        [
            *(tool("iree-compile"), *flags, "--compile-to=executable-configurations"),
            "--iree-codegen-add-tuner-attributes",
            f"--iree-hal-dump-executable-benchmarks-to={folder}",
            *(str(program), "-o", "/dev/null"),
        ]
    )
    return sorted(folder.glob("*.mlir"))


def read(text: str) -> tuple[tuple[str, ...], Operation | None, set[LoweringConfig]]:
    """The names of a benchmark's functions, its root operation, and the configurations of all its operations.

    The root operation is None if there is none, more than one, or one that cannot be matched or whose configuration is not
    of tile sizes. One whose configuration comes from a tuning spec is not marked as a root operation.
    """
    from iree.compiler import ir
    from iree.compiler.dialects import iree_codegen

    functions: list[str] = []
    configs: set[LoweringConfig] = set()

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "hal.executable.export":
            functions.append(ir.StringAttr(op.attributes["sym_name"]).value)
        if config := _config(op):
            configs.add(config)
        return ir.WalkResult.ADVANCE

    with ir.Context():
        module = ir.Module.parse(text)
        module.operation.walk(visit)
        roots = iree_codegen.get_tuner_root_ops(module)
        if len(roots) != 1 or not (config := _config(roots[0])):
            return tuple(functions), None, configs
        operation, types = _alone(roots[0])
        root_operation = Operation(operation, types, _pipeline(roots[0]), config)
        return tuple(functions), None if UNKNOWN in operation else root_operation, configs


def with_config(text: str, config: LoweringConfig) -> str:
    """A benchmark whose root operation has another configuration. Those of the other operations are left out, as they
    are where a tuning spec has set that of the root."""
    from iree.compiler import ir

    def change(op: ir.Operation) -> ir.WalkResult:
        if CONFIG in op.attributes:
            if ROOT in op.attributes:
                op.attributes[CONFIG] = ir.Attribute.parse(str(config))
            else:
                del op.attributes[CONFIG]
        return ir.WalkResult.ADVANCE

    with ir.Context():
        module = ir.Module.parse(text)
        module.operation.walk(change)
        return str(module)


def benchmarked(text: str) -> str:
    """The name of the first function that iree-benchmark-module can call."""
    match = re.search(r"util\.func public @(\"[^\"]+\"|[\w$.-]+)\(", text)
    return match[1].strip('"') if match else ""


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

    types = tuple(str(operand.type) for operand in root.operation.operands)
    arguments = ", ".join(f"%arg{number}: {kind}" for number, kind in enumerate(types))
    module = ir.Module.parse(f"func.func @f({arguments}) {{ return }}")
    block = module.body.operations[0].regions[0].blocks[0]
    copy = root.operation.clone(ir.InsertionPoint.at_block_begin(block))
    for name in (CONFIG, ROOT):
        del copy.attributes[name]
    for number, argument in enumerate(block.arguments):
        copy.operands[number] = argument
    return copy.get_asm(use_local_scope=True), types
