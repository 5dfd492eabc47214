"""Transposes the kernels of convolutions in a dispatch of their own, for programs whose weights change.

IREE lowers StableHLO's convolutions to ones with kernels in the order height, width, inputs, outputs. For inference, it reorders
the kernel once, when the module is loaded. Where weights change between calls, it reads the kernel in PyTorch's order inside
the convolution, which makes whole steps up to 2.5 times as slow (docs/performance.md#training-steps).
"""

from __future__ import annotations

NAME = "kernels-transposed-first"
BARRIER = "util.optimization_barrier"
"""Keeps IREE from moving or fusing what is before it. It is dropped before code is generated."""

_CONVOLUTION = "stablehlo.convolution"
_MOVES = {f"stablehlo.{name}" for name in ("transpose", "reverse", "reshape", "convert", "slice")}
"""Operations after which a weight still is one."""


def transposed_before(ir, operation) -> str:
    """Give a convolution its kernel in the order that IREE convolves with: the spatial dimensions, inputs, outputs.

    Not with groups, nor where a kernel has one value per channel: that is a matrix product, whose operands IREE
    packs. Returns NAME, or "" for anything else.
    """
    if operation.name != _CONVOLUTION or not _is_weight(operation.operands[1]):
        return ""
    groups = ("feature_group_count", "batch_group_count")
    if any(ir.IntegerAttr(operation.attributes[name]).value != 1 for name in groups):
        return ""
    # As text: #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>
    image, _, rest = str(operation.attributes["dimension_numbers"]).partition("]x[")
    names, _, result = rest.partition("]->[")
    order = names.split(", ")
    kernel = operation.operands[1]
    kind = ir.RankedTensorType(kernel.type)
    wanted = [*map(str, range(len(order) - 2)), "i", "o"]
    by_name = dict(zip(order, kind.shape, strict=True))
    if order == wanted or all(by_name[name] == 1 for name in wanted[:-2]):
        return ""
    permutation = ", ".join(str(order.index(name)) for name in wanted)
    turned = ir.RankedTensorType.get([by_name[name] for name in wanted], kind.element_type)
    with ir.InsertionPoint(operation):
        transposed = ir.Operation.create(
            "stablehlo.transpose",
            results=[turned],
            operands=[kernel],
            attributes={"permutation": ir.Attribute.parse(f"array<i64: {permutation}>")},
        )
        kept = ir.Operation.create(BARRIER, results=[turned], operands=[transposed.result])
    operation.operands[1] = kept.result
    numbers = f"{image}]x[{', '.join(wanted)}]->[{result}"
    operation.attributes["dimension_numbers"] = ir.Attribute.parse(numbers)
    return NAME


def _is_weight(value) -> bool:
    """Whether a value is an argument of the program, after operations that compute nothing."""
    while (owner := getattr(value.owner, "operation", None)) is not None:
        if owner.name not in _MOVES:
            return False
        value = owner.operands[0]
    return True
