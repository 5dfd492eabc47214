"""Transposes the kernels of convolutions in dispatches of their own, where the kernels are weights that change between calls.

IREE lowers StableHLO's convolutions to ones with kernels in the order height, width, inputs, outputs. For inference, it reorders
the kernel once, when the module is loaded. Where weights change between calls, it reads the kernel in PyTorch's order inside
the convolution, which makes a step of `conv` 2.7 times as long (docs/performance.md#training-steps).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from scripts.lowering.link import BARRIER, Argument, Parameter

NAME = "kernels-transposed-first"

_CONVOLUTION = "stablehlo.convolution"
_GROUPS = ("feature_group_count", "batch_group_count")
_MOVES = {f"stablehlo.{name}" for name in ("transpose", "reverse", "reshape", "convert", "slice")}
"""Operations of one operand, after which a weight still is one."""


def numbers(arguments: Sequence[Argument], changing: Collection[str]) -> frozenset[int]:
    """The positions of the arguments that are weights with names in `changing`."""
    return frozenset(
        number
        for number, argument in enumerate(arguments)
        if isinstance(argument, Parameter) and argument.type.name in changing
    )


def transposed_first(ir: Any, module: Any, weights: Collection[int]) -> list[str]:
    """Give convolutions their kernels in the order that IREE convolves with; return [NAME] if there are any.

    `weights`: positions of the arguments of the public function that change between calls. Not with groups, nor where a kernel has one value
    per channel: that is a matrix product, whose operands IREE packs. The kernels are transposed at the start of the function, and
    the barriers follow all of them, because IREE waits before each barrier for what was computed until then.
    """
    applied = []
    for function in (op.operation for op in module.body.operations):
        if function.name != "func.func" or "private" in str(function.attributes.get("sym_visibility")):  # fmt: skip
            continue
        block = function.regions[0].blocks[0]
        found = [
            (operation, order, moves)
            for operation in (op.operation for op in block.operations)
            if (order := _other_order(ir, operation))
            and (moves := _moves(ir, block, operation.operands[1], weights)) is not None
        ]
        if found:
            _transpose(ir, block, found)
            applied = [NAME]
    return applied


def _transpose(ir: Any, block: Any, found: Sequence[tuple[Any, list[str], list[Any]]]) -> None:
    """Transpose the kernels of convolutions at the start of their block."""
    start = ir.InsertionPoint(next(iter(block.operations)))
    kernels = []
    for operation, order, moves in found:
        value = moves[0].operands[0] if moves else operation.operands[1]
        for move in moves:
            copy = move.clone(ip=start)
            copy.operands[0] = value
            value = copy.result
        kind = ir.RankedTensorType(value.type)
        places = [order.index(name) for name in _wanted(order)]
        turned = ir.RankedTensorType.get([kind.shape[n] for n in places], kind.element_type)
        permutation = ir.Attribute.parse(f"array<i64: {', '.join(map(str, places))}>")
        with operation.location, start:
            transposed = ir.Operation.create(
                "stablehlo.transpose",
                results=[turned],
                operands=[value],
                attributes={"permutation": permutation},
            )
        kernels.append(transposed.result)
    for (operation, order, _), kernel in zip(found, kernels, strict=True):
        with operation.location, start:
            kept = ir.Operation.create(BARRIER, results=[kernel.type], operands=[kernel])
        operation.operands[1] = kept.result
        image, _, result = _dimensions(operation)
        text = f"{image}]x[{', '.join(_wanted(order))}]->[{result}"
        operation.attributes["dimension_numbers"] = ir.Attribute.parse(text)


def _other_order(ir: Any, operation: Any) -> list[str] | None:
    """The order of a kernel's dimensions, such as [o, i, 0, 1]; None if there is nothing to transpose."""
    if operation.name != _CONVOLUTION:
        return None
    if any(ir.IntegerAttr(operation.attributes[name]).value != 1 for name in _GROUPS):
        return None
    order = _dimensions(operation)[1].split(", ")
    sizes = zip(order, ir.RankedTensorType(operation.operands[1].type).shape, strict=True)
    is_product = all(size == 1 for name, size in sizes if name not in "io")
    return None if is_product or order == _wanted(order) else order


def _dimensions(operation: Any) -> tuple[str, str, str]:
    """The text of a convolution's dimensions, `#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>`, in three parts:
    before the kernel's, the kernel's, and after them."""
    image, _, rest = str(operation.attributes["dimension_numbers"]).partition("]x[")
    kernel, _, result = rest.partition("]->[")
    return image, kernel, result


def _wanted(order: Sequence[str]) -> list[str]:
    """The spatial dimensions, inputs, outputs."""
    return [*map(str, range(len(order) - 2)), "i", "o"]


def _moves(ir: Any, block: Any, value: Any, weights: Collection[int]) -> list[Any] | None:
    """The operations that make a value of a weight, the first one first; None if it is no weight."""
    moves: list[Any] = []
    while not isinstance(value.owner, ir.Block):
        operation = getattr(value.owner, "operation", value.owner)
        if operation.name not in _MOVES:
            return None
        moves.insert(0, operation)
        value = operation.operands[0]
    argument = ir.BlockArgument(value)
    return moves if argument.owner == block and argument.arg_number in weights else None
