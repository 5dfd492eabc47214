"""What a program dispatches in a call, and what each dispatch has to do: FLOPs, bytes and workgroups, from the IR that
`iree-compile --dump-compilation-phases-to` writes after three of its phases."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.frontends.lowering.locations import below

CONFIGURED, TARGETS, HAL = "executable-configurations", "executable-targets", "hal"
"""The phases: with the operations of each dispatch, with its code in the compiler's dialects, and with the calls."""
_FLOAT = re.compile(r"(arith\.(add|sub|mul|div|rem|maximum|minimum|maxnum|minnum|neg)f|math\.\w+)$")
_FUNCTION = re.compile(r"  util\.(func|initializer)\b")
_CONSTANT = re.compile(r"(%\S+) = arith\.constant (\d+) : index")
_LOOKUP = re.compile(r'(%\S+) = hal\.executable\.lookup\.function .*::@"?([\w$.]+)"?\)')
_DISPATCH = re.compile(r"hal\.command_buffer\.dispatch<.*\[(%[\w.]+)\] workgroups\(\[([^\]]*)\]\)")
_INITIALIZER = re.compile(r"^_?_initializer_\d+")
_EXPORT = re.compile(
    r'hal\.executable\.export public @"?([\w$.]+)"? .*?\n((?:.*\n)*?)      \} (?:attributes )?[<{](.*)[>}]'
)
"""IREE 3.12 writes `attributes {…}`, later ones `<…>`."""


class Unknown(Exception):
    """The work of a dispatch depends on sizes that the program does not have."""


@dataclass(frozen=True)
class Work:
    """What one call of a dispatch has to do. `product_flop`: FLOPs of matrix products, convolutions and attention; `other_flop`: all others,
    one for each operation on a floating-point element. `bytes`: of the parts of its operands that it reads, each once, and
    of its results. `element`: of the operands of its largest product, such as `f32`; "" without one. `pipeline`: how it is compiled."""

    product_flop: int
    other_flop: int
    bytes: int
    element: str
    pipeline: str


def phase(folder: Path, name: str) -> str:
    """The program after a phase. Raises OSError if it was not written."""
    return next(folder.glob(f"*.{name}.mlir"), folder / f"{name}.mlir").read_text(encoding="utf-8")


def calls(hal: str) -> Counter[tuple[str, int | None]]:
    """How often a call of the program dispatches each function, with the number of its workgroups (None: computed at run time). `hal`:
    the program after the phase HAL. What initializers dispatch, once, is left out; what a loop dispatches counts once."""
    counted: Counter[tuple[str, int | None]] = Counter()
    values: dict[str, int] = {}
    names: dict[str, str] = {}
    for line in hal.splitlines():
        if _FUNCTION.match(line):
            values, names = {}, {}
        elif constant := _CONSTANT.search(line):
            values[constant[1]] = int(constant[2])
        elif lookup := _LOOKUP.search(line):
            names[lookup[1]] = lookup[2]
        elif dispatch := _DISPATCH.search(line):
            sizes = [values.get(value.strip()) for value in dispatch[2].split(",")]
            whole = None if None in sizes else math.prod(filter(None, sizes))
            if not _INITIALIZER.match(names[dispatch[1]]):
                counted[names[dispatch[1]], whole] += 1
    return counted


def exports(targets: str) -> dict[str, tuple[int, int]]:
    """How each dispatch is launched, from the program after the phase TARGETS: threads of a workgroup, and the bytes of local memory that the launch
    asks for (CUDA)."""
    launches = {}
    for name, _, said in _EXPORT.findall(targets):
        size = re.search(r"workgroup_size = \[([^\]]*)\]", said)
        local = re.search(r"workgroup_local_memory = (\d+)", said)
        threads = math.prod(map(int, re.findall(r"(\d+) : index", size[1]))) if size else 0
        launches[name] = threads, int(local[1]) if local else 0
    return launches


def work(configured: str) -> dict[str, Work | None]:
    """The work of each dispatch, from the program after the phase CONFIGURED; None where it depends on sizes that are not known."""
    from iree.compiler import ir

    works: dict[str, Work | None] = {}
    with ir.Context():
        module = ir.Module.parse(configured)
        for function in below(module.operation):
            if function.name == "func.func" and "translation_info" in function.attributes:
                works[ir.StringAttr(function.attributes["sym_name"]).value] = work_of(function)
    return works


def work_of(function: Any) -> Work | None:
    """The work of the function of a dispatch; None if it depends on sizes that are not known."""
    try:
        return _of_function(function)
    except Unknown:
        return None


def _of_function(function: Any) -> Work:
    products: Counter[str] = Counter()
    other = moved = 0
    for op in below(function):
        if op.name in _LOADS:
            loaded = op.results[0]
            moved += min(_bytes(loaded.type), sum(map(_used, loaded.uses)))
        elif op.name in _STORES:
            moved += _written(op.operands[0])
        elif op.name == "iree_linalg_ext.attention":
            products[str(op.operands[0].type.element_type)] += _attention(op)
        elif op.name.startswith("linalg.") and (maps := linalg_maps(op)):
            points = math.prod(_sizes(op, maps).values())
            body = Counter(part.name.rpartition(".")[2] for part in below(op))
            floats = sum(1 for part in below(op) if _FLOAT.match(part.name))
            if _is_product(op, maps, body):
                products[str(op.operands[0].type.element_type)] += 2 * points
                floats = max(0, floats - 2)
            other += floats * points
    said = function.attributes
    info = _PIPELINE.search(str(said["translation_info"])) if "translation_info" in said else None
    element = max(products, key=products.__getitem__, default="")
    return Work(sum(products.values()), other, moved, element, info[1] if info else "")


_LOADS = ("iree_tensor_ext.dispatch.tensor.load", "iree_codegen.load_from_buffer")
_STORES = ("iree_tensor_ext.dispatch.tensor.store", "iree_codegen.store_to_buffer")
_PIPELINE = re.compile(r"pipeline(?: = |<)(\w+)")


def linalg_maps(op: Any) -> list[Any]:
    """The indexing maps of an operation of linalg with loops, in the order of its operands; [] of another one."""
    from iree.compiler.dialects import linalg

    if op.name in ("linalg.yield", "linalg.index") or not len(op.regions):
        return []
    if not hasattr(linalg, "get_indexing_maps"):  # before IREE 3.4
        raise Unknown
    return [attribute.value for attribute in linalg.get_indexing_maps(op) or ()]


def _dims(affine_map: Any) -> dict[int, int]:
    """The dimensions of an indexing map that are results by themselves, with the place of the result."""
    places = ((re.fullmatch(r"d(\d+)", str(result)), at) for at, result in enumerate(affine_map.results))  # fmt: skip
    return {int(dim[1]): at for dim, at in places if dim}


def _sizes(op: Any, maps: Sequence[Any]) -> dict[int, int]:
    """The size of each loop. Raises Unknown."""
    sizes: dict[int, int] = {}
    for operand, affine_map in zip(op.operands, maps, strict=False):
        for dim, at in _dims(affine_map).items():
            sizes[dim] = _shape(operand.type)[at]
    return sizes


def _is_product(op: Any, maps: Sequence[Any], body: Mapping[str, int]) -> bool:
    """Whether an operation sums up products of two operands."""
    sums = body.keys() & {"addf", "addi"} and body.keys() & {"mulf", "muli"}
    reduces = set().union(*map(_dims, maps)) - _dims(maps[-1]).keys()
    return bool(sums and reduces) and len(maps) > 2


def _attention(op: Any) -> int:
    """The FLOPs of the two products of attention: of query and key, and of their weights and the values."""
    maps = [attribute.value for attribute in op.attributes["indexing_maps"]]
    sizes = _sizes(op, maps)
    query, key, value, result = (set(_dims(maps[at])) for at in (0, 1, 2, -1))
    return sum(2 * math.prod(sizes[dim] for dim in dims) for dims in (query | key, value | result))


def _used(use: Any) -> int:
    """The bytes of an operand that one of its uses reads: all, but for those that take or replace a part."""
    op, place = use.owner.operation, use.operand_number
    match op.name, place:
        case "tensor.extract", 0:
            outer = op.parent.operation
            points = math.prod(_sizes(outer, maps).values()) if (maps := linalg_maps(outer)) else 1
            return math.ceil(points * _bits(op.results[0].type) / 8)
        case (("tensor.extract_slice" | "iree_linalg_ext.gather"), 0):
            return _bytes(op.results[0].type)
        case ("iree_linalg_ext.scatter", 2) | ("tensor.insert_slice", 1):
            return _bytes(op.operands[0].type)
    return _bytes(op.operands[place].type)


def _written(value: Any) -> int:
    """The bytes of a stored value that change."""
    op = value.owner
    replaces = getattr(op, "name", "") in ("iree_linalg_ext.scatter", "tensor.insert_slice")
    return _bytes(op.operands[0].type if replaces else value.type)


def _shape(kind: Any) -> list[int]:
    if not kind.has_static_shape:
        raise Unknown
    return list(kind.shape)


def _bytes(kind: Any) -> int:
    return math.ceil(math.prod(_shape(kind)) * _bits(kind.element_type) / 8)


def _bits(element: Any) -> int:
    """The bits of an element as it is stored."""
    text = str(element)
    number = re.search(r"\d+", text)
    bits = int(number[0]) if number else 64  # `index`
    return 8 if bits == 1 else 2 * bits if text.startswith("complex") else bits
