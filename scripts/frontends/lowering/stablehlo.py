"""Rewrites a frontend's StableHLO so that IREE compiles it, and so that training steps are faster.

Each rewrite is exact and has a name. The export's report lists those that were applied. A frontend with
`rewrites: none` shows what the compiler does with the unchanged program.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from scripts.frontends.lowering import locations
from scripts.frontends.lowering.link import BARRIER, Argument, Parameter, create

KERNELS_FIRST = "kernels-transposed-first"
AVOIDING = ("i1 converted before the product", "sort with positions of its own")
"""Rewrites without which IREE 3.13 computes wrong values that workflow/known_failures.yaml names."""

UNSIGNED_BITS = (8, 16, 32)
"""Widths whose values a wider signed integer holds."""


def for_iree(
    text: str,
    arguments: Sequence[Argument] = (),
    changing: Collection[str] = (),
    bodies: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str, tuple[str, ...]]:
    """The program after every rewrite that applies to it, and the names of those.

    `changing`: names of the weights among its `arguments` that change between calls. If they are kernels of convolutions, they are
    transposed first, so that the program is faster. `bodies`: what the scatters of some nodes compute in place of a sum, an operation by node. Raises ValueError
    if one of these has not become a scatter that adds.
    """
    from iree.compiler import ir

    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        names = _give_bodies(ir, module, bodies)
        # Replacing an operation moves its body.
        for operation in locations.below(module.operation, inner_first=True):
            with operation.location:  # of what a rewrite creates
                for rewrite in _REWRITES:
                    if name := rewrite(ir, operation):
                        names.append(name)
                        break
        weights = {
            number
            for number, argument in enumerate(arguments)
            if isinstance(argument, Parameter) and argument.type.name in changing
        }
        names += _kernels_transposed_first(ir, module, weights)
        changed = module.operation.get_asm(enable_debug_info=True) if names else text
        return changed, tuple(sorted(set(names)))


def _give_bodies(ir: Any, module: Any, bodies: Mapping[str, str]) -> list[str]:
    """Replace the sum in the scatters of some nodes; return the name of this rewrite if there are any. The frontend may have made one of
    equal scatters with equal bodies."""
    replaced = set()
    for operation in locations.below(module.operation) if bodies else ():
        if operation.name != "stablehlo.scatter":
            continue
        if (body := bodies.get(locations.name_of(operation) or "")) is None:
            continue
        added, *others = (op.operation for op in operation.regions[0].blocks[0].operations)
        if added.name != "stablehlo.add" or len(others) != 1:
            raise ValueError(f"expected a scatter that adds, found {operation}")
        with ir.InsertionPoint(added), added.location:
            new = create(ir, body, added.results[0].type, *added.operands)
        added.results[0].replace_all_uses_with(new)
        added.erase()
        replaced.add(body)
    if missing := {*bodies.values()} - replaced:
        raise ValueError(f"the frontend lowered the scatters of {', '.join(bodies)} without one for {', '.join(sorted(missing))}")  # fmt: skip
    return ["scatter-reduce-as-add"] * bool(bodies)


# PyTorch/XLA writes operations of CHLO (StableHLO's client dialect) that older XLA did not know
# as custom calls; IREE takes CHLO.
_CHLO = {f"mhlo.{name}": f"chlo.{name}" for name in ("erf", "tan", "asin", "acos", "sinh", "cosh")}


def _custom_call_to_chlo(ir, operation) -> str:
    """`stablehlo.custom_call @mhlo.erf` is `chlo.erf`."""
    if operation.name != "stablehlo.custom_call":
        return ""
    target = ir.StringAttr(operation.attributes["call_target_name"]).value
    if target not in _CHLO or len(operation.operands) != 1:
        return ""
    with ir.InsertionPoint(operation):
        new = create(ir, _CHLO[target], operation.results[0].type, operation.operands[0])
    operation.results[0].replace_all_uses_with(new)
    operation.erase()
    return f"{target} to {_CHLO[target]}"


def _unsigned_window_in_signed(ir, operation) -> str:
    """`reduce_window` over unsigned integers, computed in a signed type twice as wide.

    IREE 3.13 leaves the body's arguments unsigned ("failed to legalize unresolved target
    materialization from ('ui8') to ('i8')"). The results are those of the narrow type: a sum is
    cut to its width again, and the values of a maximum or minimum never leave it.
    """
    if operation.name != "stablehlo.reduce_window" or len(operation.results) != 1:
        return ""
    element = ir.RankedTensorType(operation.results[0].type).element_type
    if not isinstance(element, ir.IntegerType) or not element.is_unsigned:
        return ""
    if (bits := element.width) not in UNSIGNED_BITS:
        return ""
    body = operation.regions[0].blocks[0]
    values = [*body.arguments, *(r for op in body.operations for r in op.operation.results)]
    if any(ir.RankedTensorType(value.type).element_type != element for value in values):
        return ""  # a comparison in the body: its values are of another type
    wide = ir.IntegerType.get_signless(2 * bits)

    def widened(kind):
        return ir.RankedTensorType.get(ir.RankedTensorType(kind).shape, wide)

    with ir.InsertionPoint(operation):
        operands = [
            create(ir, "stablehlo.convert", widened(value.type), value)
            for value in operation.operands
        ]
        new = ir.Operation.create(
            operation.name,
            results=[widened(operation.results[0].type)],
            operands=operands,
            attributes=_attributes(operation),
            regions=1,
        )
        narrow = create(ir, "stablehlo.convert", operation.results[0].type, new.result)
    _clone_body(ir, body, new.regions[0], [widened(a.type) for a in body.arguments], widened)
    operation.results[0].replace_all_uses_with(narrow)
    operation.erase()
    return f"reduce_window over ui{bits} in i{2 * bits}"


def _clone_body(
    ir, body, region, arguments: Sequence, retype: Callable = lambda kind: kind
) -> None:
    """The same block in `region`, with arguments of the types `arguments`, and every result in the type that
    `retype` gives."""
    block = region.blocks.append(*arguments)
    values = dict(zip(body.arguments, block.arguments, strict=True))
    with ir.InsertionPoint(block):
        for op in body.operations:
            new = ir.Operation.create(
                op.operation.name,
                results=[retype(result.type) for result in op.operation.results],
                operands=[values[operand] for operand in op.operation.operands],
                attributes=_attributes(op.operation),
            )
            values |= zip(op.operation.results, new.results, strict=True)


def _scatter_indices_in_i32(ir, operation) -> str:
    """A scatter's `i64` indices as `i32`, which number everything that fits into memory.

    Where two scatters share their indices, IREE 3.13 fails to narrow them by itself ("failed to
    legalize unresolved source materialization from ('tensor<…xi64>') to ('tensor<…xi32>')").
    """
    if operation.name != "stablehlo.scatter":
        return ""
    position = (len(operation.operands) - 1) // 2
    indices = operation.operands[position]
    kind = ir.RankedTensorType(indices.type)
    sizes = ir.RankedTensorType(operation.operands[0].type).shape
    if kind.element_type != ir.IntegerType.get_signless(64) or max(sizes, default=0) >= 1 << 31:
        return ""
    narrow = ir.RankedTensorType.get(kind.shape, ir.IntegerType.get_signless(32))
    with ir.InsertionPoint(operation):
        operation.operands[position] = create(ir, "stablehlo.convert", narrow, indices)
    return "scatter indices i64 to i32"


def _sort_with_own_positions(ir, operation) -> str:
    """A sort that carries positions (an `iota`) along does so in `i32`, and each sort of a program carries
    positions of its own: those of the n-th one start at n, which is taken off again.

    IREE 3.13 turns a sort of which only the first values are used, as in a mixture of experts, into
    `chlo.top_k`, and keeps the type of the positions ("'chlo.top_k' op inferred type(s) …
    'tensor<4x2xi32>', are incompatible with return type(s) … 'tensor<4x2xi64>'"). And it sorts in place: where
    two sorts have the same positions and these are computed at run time (as with data tiling), they
    share one buffer without a copy (the stream program has one for the values only), so each permutes
    the positions of the other. The values are right and the positions wrong.
    """
    if operation.name != "stablehlo.sort" or not (places := _carried_positions(ir, operation)):
        return ""
    before = itertools.takewhile(lambda op: op.operation != operation, operation.block.operations)
    start = sum(op.operation.name == operation.name for op in before)
    i32 = ir.IntegerType.get_signless(32)
    wide = {place: operation.operands[place].type for place in places}
    if not start and all(ir.RankedTensorType(kind).element_type == i32 for kind in wide.values()):
        return ""

    def narrow(kind):
        return ir.RankedTensorType.get(ir.RankedTensorType(kind).shape, i32)

    def moved(by, value):
        splat = ir.DenseElementsAttr.get_splat(value.type, ir.IntegerAttr.get(i32, start))
        first = create(ir, "stablehlo.constant", value.type, value=splat)
        return create(ir, by, value.type, value, first) if start else value

    body = operation.regions[0].blocks[0]
    with ir.InsertionPoint(operation):
        operands = list(operation.operands)
        for place, kind in wide.items():
            narrowed = create(ir, "stablehlo.convert", narrow(kind), operands[place])
            operands[place] = moved("stablehlo.add", narrowed)
        new = ir.Operation.create(
            operation.name,
            results=[operand.type for operand in operands],
            operands=operands,
            attributes=_attributes(operation),
            regions=1,
        )
        sorted_values = list(new.results)
        for place, kind in wide.items():
            own = moved("stablehlo.subtract", sorted_values[place])
            sorted_values[place] = create(ir, "stablehlo.convert", kind, own)
    arguments = [
        narrow(argument.type) if number // 2 in wide else argument.type
        for number, argument in enumerate(body.arguments)
    ]
    _clone_body(ir, body, new.regions[0], arguments)
    for old, result in zip(operation.results, sorted_values, strict=True):
        old.replace_all_uses_with(result)
    operation.erase()
    return "sort with positions of its own" if start else "sort positions i64 to i32"


_PRODUCTS = ("stablehlo.dot_general", "stablehlo.dot", "stablehlo.einsum")


def _unsigned_operand_before_product(ir, operation) -> str:
    """An operand of a product that is converted from booleans or unsigned integers is converted before the product.

    IREE 3.13 takes a widening conversion into the product, and then reads the narrow type as signed: from O2 on, True counts as -1,
    and at every level, 255 of 8 bits counts as -1. It does not look through an absolute value, which changes nothing here.
    """
    if operation.name != "stablehlo.convert":
        return ""
    before, after = (
        ir.RankedTensorType(value.type).element_type
        for value in (operation.operands[0], operation.results[0])
    )
    if not isinstance(before, ir.IntegerType) or not (before.is_unsigned or before.width == 1):
        return ""
    if isinstance(after, ir.IntegerType) and not after.is_signless:
        return ""  # it has no absolute value
    uses = [use for use in operation.results[0].uses if use.owner.operation.name in _PRODUCTS]
    if not uses:
        return ""
    with ir.InsertionPoint.after(operation):
        new = create(ir, "stablehlo.abs", operation.results[0].type, operation.results[0])
    for use in uses:
        use.owner.operands[use.operand_number] = new
    return f"{before} converted before the product"


def _carried_positions(ir, operation) -> list[int]:
    """The operands of a sort that are positions and take no part in the comparison."""
    arguments = operation.regions[0].blocks[0].arguments
    integers = [ir.IntegerType.get_signless(bits) for bits in (32, 64)]
    return [
        place
        for place, operand in enumerate(operation.operands)
        if ir.RankedTensorType(operand.type).element_type in integers
        and _is_iota(operand)
        and not any(list(arguments[2 * place + side].uses) for side in (0, 1))
    ]


def _is_iota(value) -> bool:
    """Whether a value is the positions along an axis: an `iota`, or one that is broadcast."""
    while (owner := getattr(value.owner, "operation", value.owner)) is not None:
        name = getattr(owner, "name", "")
        if name == "stablehlo.iota":
            return True
        if name not in ("stablehlo.broadcast_in_dim", "stablehlo.reshape"):
            return False
        value = owner.operands[0]
    return False


def _attributes(operation) -> dict:
    return {name: operation.attributes[name] for name in operation.attributes}


_REWRITES = (
    _custom_call_to_chlo,
    _unsigned_window_in_signed,
    _scatter_indices_in_i32,
    _sort_with_own_positions,
    _unsigned_operand_before_product,
)


_CONVOLUTION = "stablehlo.convolution"
_GROUPS = ("feature_group_count", "batch_group_count")
_MOVES = {f"stablehlo.{name}" for name in ("transpose", "reverse", "reshape", "convert", "slice")}
"""Operations of one operand, after which a weight still is one."""


def _kernels_transposed_first(ir: Any, module: Any, weights: Collection[int]) -> list[str]:
    """Give convolutions their kernels in the order that IREE convolves with, in separate dispatches, where the kernels
    are weights that change between calls; return [KERNELS_FIRST] if there are any.

    IREE lowers StableHLO's convolutions to ones with kernels in the order height, width, inputs, outputs. For inference, it
    reorders the kernel once, when the module is loaded. Where weights change between calls, it reads the kernel in
    PyTorch's order inside the convolution, which makes a step of `conv` 2.7 times as long
    (docs/training.md#what-works).

    `weights`: positions of the arguments of the public function that change between calls. Not with groups, nor where a kernel has one value
    per channel: that is a matrix product, whose operands IREE packs. The kernels are transposed at the start of the function, and
    the barriers follow all of them, because IREE waits before each barrier for what was computed until then.
    """
    applied = []
    for function in (op.operation for op in module.body.operations):
        if function.name != "func.func" or "private" in str(function.attributes.get("sym_visibility")):  # fmt: skip
            continue
        block = function.regions[0].blocks[0]
        convolutions = [
            (operation, order, moves)
            for operation in (op.operation for op in block.operations)
            if (order := _other_order(ir, operation))
            and (moves := _moves(ir, block, operation.operands[1], weights)) is not None
        ]
        if convolutions:
            _transpose(ir, block, convolutions)
            applied = [KERNELS_FIRST]
    return applied


def _transpose(
    ir: Any, block: Any, convolutions: Sequence[tuple[Any, list[str], list[Any]]]
) -> None:
    """Transpose the kernels of convolutions at the start of their block."""
    start = ir.InsertionPoint(next(iter(block.operations)))
    kernels = []
    for operation, order, moves in convolutions:
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
            kernels.append(
                create(ir, "stablehlo.transpose", turned, value, permutation=permutation)
            )
    for (operation, order, _), kernel in zip(convolutions, kernels, strict=True):
        with operation.location, start:
            operation.operands[1] = create(ir, BARRIER, kernel.type, kernel)
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


NODE = "node"
"""The key of a node's name in the metadata entry `custom`."""

_STRING = r'"(?:[^"\\]|\\.)*"'
# `\22` is MLIR's escape of a quotation mark.
_NAME = re.compile(rf"22{NODE}[\\2]+: [\\2]+(?P<name>\w+?)\\")
_LOCATION = rf"(?:{_STRING}|#loc\d*)"
_OF_OPERATION = re.compile(rf" (?:{_STRING}|\[unknown\]|\[{_LOCATION}(?:, {_LOCATION})*\])$")
_OF_ARGUMENT = re.compile(rf"(?<=>) (?:{_STRING}|\[unknown\])(?=[,)])")
_BOOLEANS = re.compile(r'dense<"0x(?P<digits>[0-9A-F]+)"> : tensor<(?P<sizes>(?:\d+x)+)i1>')


def for_parser(text: str) -> str:
    """The StableHLO text of PyTorch/XLA in a form that the MLIR of IREE parses, with the same values.

    Locations are printed in MLIR's form for people: `"…"` without `loc()`, after an operation and after an argument, which no parser
    reads. The string is the JSON of the node's metadata, where the name of the node is in the entry `custom`, as JSON again.
    """
    return with_locations(_BOOLEANS.sub(_with_bytes, text))


def _with_bytes(literal: re.Match[str]) -> str:
    """A constant of booleans in hexadecimal with a byte per element.

    The MLIR in torch_xla 2.9.0 writes a bit per element, of which the first is the lowest of its byte. That in IREE
    3.13.0 reads a byte per element: "elements hex data size is invalid for provided type: 'tensor<1x197xi1>'".
    A constant that already has a byte per element is left as it is.
    """
    packed = bytes.fromhex(literal["digits"])
    count = math.prod(int(size) for size in literal["sizes"].split("x")[:-1])
    if len(packed) != -(-count // 8):
        return literal[0]
    digits = "".join(f"{packed[i // 8] >> i % 8 & 1:02X}" for i in range(count))
    return f'dense<"0x{digits}"> : tensor<{literal["sizes"]}i1>'


def with_locations(text: str) -> str:
    """The program with locations that MLIR parses: of each operation, the name of its node."""
    lines = []
    for line in text.splitlines():
        if line.startswith("#loc"):
            continue
        line = _OF_ARGUMENT.sub("", line)
        if operation := _OF_OPERATION.search(line):
            name = _NAME.search(operation[0])
            where = f'"{name["name"]}"' if name else "unknown"
            line = f"{line[: operation.start()]} loc({where})"
        lines.append(line)
    return "\n".join(lines) + "\n"
