"""What IREE's compiler has chosen for each dispatch, and what the dispatch works on, by the executables that
--iree-hal-dump-executable-configurations-to writes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.frontends.lowering.locations import below

_CHOSEN = ("translation_info", "lowering_config")
_TILED = frozenset({"linalg.mmt4d", "linalg.batch_mmt4d", "linalg.pack", "linalg.unpack"})
_BUFFER = re.compile(r"(?:memref|tensor)<(?P<sizes>(?:\d+x)*)(?:bf|f|[su]?i|index)(?P<bits>\d*)")
_FLOAT = re.compile(r"arith\.(?:add|sub|mul|div|rem|neg|m(?:ax|in)\w*)f$|math\.")
_LOOP = re.compile(r"d(\d+)$")
_DEFINED = re.compile(
    r'^define .*?@"?(?P<name>[\w$.]+)"?\((?P<body>.*?)^}', re.MULTILINE | re.DOTALL
)
_MICROKERNEL = re.compile(r"@(iree_uk_\w+)")


@dataclass(frozen=True)
class Configured:
    """A dispatch. `tiling`: its pipeline, and the tile sizes of its operations, each once. `data_tiled`: whether its operands or results
    are packed in tiles. `flop`: operations on floats of its structured operations, a function such as exp as one; `bytes`: of its operands and results,
    each once; None if a size is not known before the call."""

    name: str
    tiling: list[str]
    data_tiled: bool
    flop: int | None
    bytes: int | None


def dispatches(folder: Path) -> Iterator[Configured]:
    """The dispatches of a folder of configured executables."""
    from iree.compiler import ir

    for path in sorted(folder.glob("*.mlir")):
        with ir.Context():
            module = ir.Module.parse(path.read_text(encoding="utf-8"))
            functions = (op for op in below(module.operation) if op.name == "func.func")
            for function in functions:
                operations = below(function)
                said = [op.attributes[name] for op in (function, *operations) for name in _CHOSEN if name in op.attributes]  # fmt: skip
                yield Configured(
                    ir.StringAttr(function.attributes["sym_name"]).value,
                    # Without the prefix of a dialect: <tile_sizes = [[8, 8]]>.
                    [*dict.fromkeys(str(each).partition("<")[2].removesuffix(">") for each in said)],
                    any(op.name in _TILED for op in operations),
                    _total(map(_flop, operations)),
                    _total(_bytes(op) for op in operations if op.name == "hal.interface.binding.subspan"),
                )  # fmt: skip


def microkernels(folder: Path) -> dict[str, list[str]]:
    """The microkernels of IREE that each function calls. `folder`: that of --iree-hal-dump-executable-intermediates-to, which
    has the code before they are inlined."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.codegen.ll")))
    bodies = {match["name"]: match["body"] for text in texts for match in _DEFINED.finditer(text)}
    return {name: [*dict.fromkeys(_MICROKERNEL.findall(body))] for name, body in bodies.items()}


def _total(numbers: Iterator[int | None]) -> int | None:
    known = list(numbers)
    return None if None in known else sum(filter(None, known))


def _bytes(binding: Any) -> int | None:
    """The bytes of a buffer of the dispatch."""
    match = _BUFFER.search(str(binding.results[0].type))
    if not match:
        return None
    values = math.prod(map(int, filter(None, match["sizes"].split("x"))))
    return values * max(8, int(match["bits"] or 64)) // 8


def _flop(operation: Any) -> int | None:
    """The operations on floats of an operation of linalg; 0 of others."""
    if not operation.name.startswith("linalg.") or not operation.regions:
        return 0
    each = sum(bool(_FLOAT.match(op.operation.name)) for op in operation.regions[0].blocks[0].operations)  # fmt: skip
    sizes = _sizes(operation) if each else ()
    return None if sizes is None else each * math.prod(sizes)


def _sizes(operation: Any) -> Sequence[int] | None:
    """The sizes of the loops of an operation of linalg, each of which goes over a dimension of an operand; None if one is not known."""
    from iree.compiler import ir
    from iree.compiler.dialects import linalg

    if not hasattr(linalg, "get_indexing_maps"):  # before IREE 3.4
        return None
    maps = [attribute.value for attribute in linalg.get_indexing_maps(operation)]
    sizes: dict[int, int] = {}
    for operand, of_operand in zip(operation.operands, maps, strict=True):
        for at, expression in enumerate(of_operand.results):
            if match := _LOOP.match(str(expression)):
                kind = ir.ShapedType(operand.type)
                if kind.is_dynamic_dim(at):
                    return None
                sizes[int(match[1])] = kind.get_dim_size(at)
    return [*sizes.values()] if len(sizes) == maps[0].n_dims else None
