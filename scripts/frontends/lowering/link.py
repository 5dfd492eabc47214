"""Links a lowered program to its parameters: weights become named parameters, inputs stay arguments.

A frontend lowers a model to one function that takes every weight and every input as an argument.
Linking turns it into a public `@main` that takes only the user inputs and loads each weight from a
`util.global` bound to `#flow.parameter.named<"model"::"<key>">`. The program is then some kilobytes of
readable text for a model of any size, and the programs of all frontends read the same archive.

To IREE these weights are constants, so what a program computes from weights alone, such as packing them for matrix products,
is computed once, when the module is loaded. For inference, this is what users want. In a training loop the weights
change, and it is computed in every step. So weights that change between calls are operands of optimization barriers.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scripts.core import extra, tensors
from scripts.core.tensors import PARAMETER_SCOPE, TensorType
from scripts.frontends.lowering import locations
from scripts.frontends.lowering.locations import Origins

FORMATS = ("text", "bytecode")
BARRIER = "util.optimization_barrier"
"""Keeps IREE from computing what is behind it when the module is loaded, and from moving or fusing what is before it."""


class UnsupportedProgram(Exception):
    """A program that a lowering path does not support; names the construct."""


class LinkError(Exception):
    """The lowered function and its arguments do not fit; says which argument and both types."""


@dataclass(frozen=True)
class Parameter:
    """A weight: bound to the archive's key `type.name`."""

    type: TensorType


@dataclass(frozen=True)
class Input:
    """The user input at `position` in the reference's order."""

    type: TensorType
    position: int


@dataclass(frozen=True)
class Constant:
    """A tensor that the capture lifted out of the program: it stays a literal."""

    type: TensorType
    value: np.ndarray


Argument = Parameter | Input | Constant


@dataclass(frozen=True)
class Lowered:
    """What an exporter hands to the linker.

    `text` is a module in the torch, stablehlo or linalg dialects whose function `entry` takes
    `arguments` in order; the results at `results` (all, if None) are the user's outputs;
    `rewrites` names what was changed for a compiler's sake. `origins`: what the names in the locations of
    `text` represent. `left_out`: what could not be found out about it, and why (core/extra.py).
    `operators`: those of the graph that was lowered (capture.operators); {} if it is not known.
    """

    text: str
    entry: str
    arguments: Sequence[Argument]
    results: Sequence[int] | None = None
    rewrites: tuple[str, ...] = ()
    origins: Origins = locations.UNKNOWN
    left_out: dict[str, str] = field(default_factory=dict)
    operators: dict[str, list[str]] = field(default_factory=dict)


def link(lowered: Lowered, inputs: Sequence[TensorType], context: Any = None) -> bytes:
    """The text of the whole program, verified by IREE's own parser.

    `inputs` are all user inputs in order; one that the program does not use is still an argument of `@main`. Raises LinkError where
    types disagree. `context`: of IREE's compiler, to make many small programs in; a new one takes longer than they do.
    """
    with _linked(lowered, inputs, (), context) as module:
        return _written(module, "text")


def link_located(
    lowered: Lowered, inputs: Sequence[TensorType], ir_format: str, changing: Collection[str]
) -> tuple[bytes, dict[int, str]]:
    """A program as `link` does, in one of FORMATS, and the name in the location of each line of its text. `changing`: names of
    weights that change between calls, as in training."""
    with _linked(lowered, inputs, changing) as module:
        # Bytecode has locations of its own. From the text, they are its lines.
        parsed = type(module).parse(_written(module, "text"))
        lines = extra.or_left_out(
            extra.LOCATIONS,
            lambda: locations.of_lines(module.operation, parsed.operation),
            lowered.left_out,
            dict[int, str](),
        )
        return _written(parsed, ir_format), lines


@contextlib.contextmanager
def _linked(
    lowered: Lowered, inputs: Sequence[TensorType], changing: Collection[str], context: Any = None
) -> Iterator[Any]:
    """The linked module of IREE's compiler, in a context, or in one that ends with this one."""
    from iree.compiler import ir

    with context or ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(lowered.text)
        _Linker(ir, module, lowered, inputs, changing).link()
        if not module.operation.verify():
            raise LinkError("the linked program does not verify")
        yield module


def _written(module: Any, ir_format: str) -> bytes:
    if ir_format == "text":
        return f"{module}\n".encode()
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def create(ir: Any, name: str, kind: Any, *operands: Any, **attributes: Any) -> Any:
    """The result of a new operation at the current insertion point."""
    operation = ir.Operation.create(name, results=[kind], operands=operands, attributes=attributes)
    return operation.result


class _Linker:
    """One linking: builds the globals and `@main`, whose body is the entry function's."""

    def __init__(
        self,
        ir: Any,
        module: Any,
        lowered: Lowered,
        inputs: Sequence[TensorType],
        changing: Collection[str],
    ) -> None:
        self.ir, self.module, self.lowered = ir, module, lowered
        self.inputs, self.changing = inputs, changing
        named = [op for op in module.body.operations if "sym_name" in op.attributes]
        self.taken = {"main"} | {op.attributes["sym_name"].value for op in named}
        functions = [op for op in named if op.operation.name == "func.func"]
        entries = [op for op in functions if op.attributes["sym_name"].value == lowered.entry]
        if not entries:
            raise LinkError(f"the lowered module has no function @{lowered.entry}")
        self.entry = entries[0].operation
        kind = ir.FunctionType(ir.TypeAttr(self.entry.attributes["function_type"]).value)
        self.entry_types, self.result_types = list(kind.inputs), list(kind.results)
        self.symbols: dict[str, str] = {}

    def link(self) -> None:
        ir = self.ir
        if len(self.entry_types) != len(self.lowered.arguments):
            raise LinkError(
                f"@{self.lowered.entry} takes {len(self.entry_types)} arguments, "
                f"the capture names {len(self.lowered.arguments)}"
            )
        body, *further = self.entry.regions[0].blocks
        # Inference never reads some weights, such as the counters of batch norm.
        used = [
            (number, argument)
            for number, argument in enumerate(self.lowered.arguments)
            if any(True for _ in body.arguments[number].uses)
        ]
        top = ir.InsertionPoint.at_block_begin(self.module.body)
        for _, argument in used:
            if isinstance(argument, Parameter) and argument.type.name not in self.symbols:
                self._global(argument, top)
        chosen = self.lowered.results
        chosen = range(len(self.result_types)) if chosen is None else chosen
        result_types = [_builtin(ir, self.result_types[i]) for i in chosen]
        main_type = ir.FunctionType.get([ir.Type.parse(t.mlir) for t in self.inputs], result_types)
        main = ir.Operation.create(
            "func.func",
            regions=1,
            attributes={
                "sym_name": ir.StringAttr.get("main"),
                "function_type": ir.TypeAttr.get(main_type),
            },
            ip=ir.InsertionPoint(self.entry),
        )
        block = main.regions[0].blocks.append(*main_type.inputs)
        with ir.InsertionPoint(block):
            for number, argument in used:
                value = self._operand(argument, self.entry_types[number], block, number)
                body.arguments[number].replace_all_uses_with(value)
        for operation in list(body.operations):
            block.append(operation)
        for other in further:
            other.append_to(main.regions[0])
        inside = [op for each in main.regions[0].blocks for op in each.operations]
        for old in [op for op in inside if op.operation.name == "func.return"]:
            with ir.InsertionPoint(old):
                results = [
                    _cast("torch_c.to_builtin_tensor", ir, old.operands[i], want)
                    for i, want in zip(chosen, result_types, strict=True)
                ]
                ir.Operation.create("func.return", operands=results)
            old.operation.erase()
        self.entry.erase()

    def _global(self, argument: Parameter, top) -> None:
        ir = self.ir
        key = argument.type.name
        # The name of a weight may already be in use in the program.
        symbol = f"{PARAMETER_SCOPE}.{key}" if key in self.taken else key
        self.symbols[key] = symbol
        kind = argument.type.mlir
        ir.Operation.create(
            "util.global",
            attributes={
                "sym_name": ir.StringAttr.get(symbol),
                "sym_visibility": ir.StringAttr.get("private"),
                "type": ir.TypeAttr.get(ir.Type.parse(kind)),
                "initial_value": ir.Attribute.parse(
                    f'#flow.parameter.named<"{PARAMETER_SCOPE}"::"{tensors.archive_key(key)}"> : {kind}'
                ),
            },
            ip=top,
        )

    def _operand(self, argument: Argument, want, block, number: int):
        ir = self.ir
        builtin = ir.Type.parse(argument.type.mlir)
        if _builtin(ir, want) != builtin:
            raise LinkError(
                f"argument {number} ({argument.type.name}): the program takes {want}, "
                f"the reference has {builtin}"
            )
        match argument:
            case Input(position=position):
                value = block.arguments[position]
                if value.type != builtin:
                    # A program for many sizes, called with one of them: IREE then compiles it for this size alone.
                    value = create(ir, "tensor.cast", builtin, value)
            case Parameter():
                symbol = ir.FlatSymbolRefAttr.get(self.symbols[argument.type.name])
                value = create(ir, "util.global.load", builtin, **{"global": symbol})
                if argument.type.name in self.changing:
                    value = create(ir, BARRIER, builtin, value)
            case Constant(value=array):
                elements = _elements(ir, array, builtin)
                value = create(ir, "arith.constant", builtin, value=elements)
        return _cast("torch_c.from_builtin_tensor", ir, value, want)


def _cast(op: str, ir, value, want):
    """Cross between builtin and torch tensors, by `op`, or between signs of integers."""
    if value.type == want:
        return value
    if {"!torch"} & {str(value.type)[:6], str(want)[:6]}:
        return create(ir, op, want, value)
    # Only StableHLO has signed and unsigned integers in builtin tensors.
    return create(ir, "stablehlo.bitcast_convert", want, value)


_VTENSOR = re.compile(r"!torch\.vtensor<\[(?P<shape>[\d,?]*)\],(?P<element>\w+)>")
_SIGNED = re.compile(r"[su]i(\d+)")


def _builtin(ir, kind):
    """The type of a tensor in IREE's ABI: a builtin tensor with signless integers."""
    match = _VTENSOR.fullmatch(str(kind))
    if match is None:
        return ir.Type.parse(_SIGNED.sub(r"i\1", str(kind))) if "ui" in str(kind) else kind
    shape = "".join(f"{n}x" for n in match["shape"].split(",") if n)
    element = _SIGNED.sub(r"i\1", match["element"])
    return ir.Type.parse(f"tensor<{shape}{element}>")


def _elements(ir, array: np.ndarray, kind):
    """A dense literal of the array's own bytes."""
    array = np.asarray(array, order="C")  # ascontiguousarray makes a vector of a scalar
    if array.dtype == np.bool_:
        return ir.DenseElementsAttr.get(
            np.packbits(array, axis=None, bitorder="little"),
            type=ir.IntegerType.get_signless(1),
            shape=list(array.shape),
        )
    return ir.DenseElementsAttr.get(array, type=kind.element_type, shape=list(array.shape))
