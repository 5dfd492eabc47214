"""Single operators that become others (embedding bags, batch norms, slices, scans, tensors without values, loops), and values that are
known before the program runs."""

from __future__ import annotations

import math
import operator

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

from scripts.frontends.lowering.fx_rewrites.edit import (
    WIDE,
    Builder,
    argument,
    aten,
    calls,
    each,
    fake_mode,
    is_static,
    is_symbolic,
    replace,
    settle,
    value,
)

_NO_PADDING = {
    aten.embedding_bag.padding_idx: None,
    aten._embedding_bag.default: -1,
    aten._embedding_bag_forward_only.default: -1,
}
"""Embedding bags, before and after decomposition, with their value of `padding_idx` for no padding."""
_SUM, _MEAN = 0, 1
"""Values of their argument `mode`."""


@each(*_NO_PADDING)
def embedding_bag_as_sum(node: fx.Node) -> dict[int, fx.Node] | None:
    """An embedding bag with as many indices per bag: the rows are gathered, then summed or averaged.

    The sum may be in another order. torch-mlir 20261001 does not lower the operator ("number of output
    elements", tensor<0xi64>), and PyTorch/XLA 2.9 unrolls it: 20 operations per bag.
    """
    size = _bag_size(node)
    if size is None or any(u.target is not operator.getitem or u.args[1] for u in node.users):
        return None
    build = Builder(node)
    bags = build(aten.view.default, argument(node, "indices"), [-1, size])
    rows = build(aten.embedding.default, argument(node, "weight"), bags)
    reduce = aten.sum.dim_IntList if argument(node, "mode") == _SUM else aten.mean.dim
    return {0: build(reduce, rows, [1])}


def _bag_size(node: fx.Node) -> int | None:
    """The indices per bag; None if bags may differ, or for a mode or option that is not rewritten."""
    offsets, indices = argument(node, "offsets"), argument(node, "indices")
    options = ("scale_grad_by_freq", "per_sample_weights", "include_last_offset")
    if argument(node, "mode") not in (_SUM, _MEAN) or value(indices).dim() != 1:
        return None
    if any(argument(node, name) not in (None, False) for name in options):
        return None
    if argument(node, "padding_idx") != _NO_PADDING[node.target]:
        return None
    if offsets.target is not aten.arange.start_step or len(offsets.args) != 3:
        return None
    start, end, step = offsets.args
    whole = start == 0 and end == value(indices).shape[0] and step > 0 and end % step == 0
    return step if whole and end else None


@each(aten._native_batch_norm_legit_functional.default)
def batch_norm_by_deviations(node: fx.Node) -> dict[int, fx.Node] | None:
    """Batch norm in training mode subtracts the mean before it squares, and its running variance is unbiased.

    PyTorch/XLA 2.9 makes it a stablehlo.batch_norm_training. IREE 3.13 computes the variance of that as E[x²] - E[x]²,
    which cancels, and PyTorch/XLA updates the running variance without the factor n / (n - 1) of PyTorch. The formulas
    here are those of torch.nn.BatchNorm2d's documentation. Sums have another order.
    """
    image = argument(node, "input")
    wide = value(image).dtype in WIDE
    if not argument(node, "training") or not wide or not is_static(image):
        return None
    call, shape = Builder(node), list(value(image).shape)
    dims = [dim for dim in range(len(shape)) if dim != 1]
    count, momentum = math.prod(shape) // shape[1], argument(node, "momentum")

    def spread(channels: fx.Node) -> fx.Node:
        return call(aten.view.default, channels, [1, -1, *[1] * (len(shape) - 2)])

    def moved(running: fx.Node, batch: fx.Node, factor: float) -> fx.Node:
        kept = call(aten.mul.Scalar, running, 1 - momentum)
        return call(aten.add.Tensor, kept, call(aten.mul.Scalar, batch, momentum * factor))

    mean = call(aten.mean.dim, image, dims)
    deviation = call(aten.sub.Tensor, image, spread(mean))
    squares = call(aten.mul.Tensor, deviation, deviation)
    variance = call(aten.mean.dim, squares, dims)
    inverse = call(aten.rsqrt.default, call(aten.add.Scalar, variance, argument(node, "eps")))
    output = call(aten.mul.Tensor, deviation, spread(inverse))
    if (weight := argument(node, "weight")) is not None:
        output = call(aten.mul.Tensor, output, spread(weight))
    if (bias := argument(node, "bias")) is not None:
        output = call(aten.add.Tensor, output, spread(bias))
    running_mean = moved(argument(node, "running_mean"), mean, 1.0)
    running_var = moved(argument(node, "running_var"), variance, count / max(count - 1, 1))
    return dict(enumerate((output, mean, inverse, running_mean, running_var)))


@each(aten.slice_scatter.default)
def slice_scatter_as_concatenation(node: fx.Node) -> fx.Node | None:
    """A tensor with a slice replaced is what is before the slice, its replacement, and what is after it.

    torch-mlir 20261001 lowers `slice_scatter` to StableHLO with an index per element up to `end`, also if that is the
    largest int64, as in the gradient of `x[start:]`: it runs out of memory.
    """
    whole, replacement = argument(node, "self"), argument(node, "src")
    dim = argument(node, "dim") % value(whole).dim()
    size = value(whole).shape[dim]
    bounds = (argument(node, "start"), argument(node, "end"))
    known = isinstance(size, int) and all(isinstance(bound, int | None) for bound in bounds)
    if argument(node, "step") != 1 or not known:
        return None
    start, end, _ = slice(*bounds).indices(size)
    build, parts = Builder(node), []
    if start > 0:
        parts.append(build(aten.slice.Tensor, whole, dim, 0, start))
    if end > start:
        if value(replacement).dtype != value(whole).dtype:
            replacement = build.cast(replacement, value(whole).dtype)
        parts.append(replacement)
    if max(start, end) < size:
        parts.append(build(aten.slice.Tensor, whole, dim, max(start, end), size))
    return build(aten.cat.default, parts, dim) if parts else whole


@each(aten.empty_permuted.default)
def empty_as_zeros(node: fx.Node) -> fx.Node | None:
    """A tensor whose values are not set is one of zeros. torch-mlir 20261001 has no `empty_permuted`, which
    training steps of language models have."""
    if not is_static(node):
        return None
    return Builder(node).full(list(value(node).shape), 0, value(node).dtype)


def scan_of_booleans_in_int64(program: ExportedProgram) -> bool:
    """A cumulative sum or product of booleans, of the same values as int64.

    PyTorch/XLA 2.9 lowers the sum to a window over `i1` whose body is an `or`, which IREE 3.13
    refuses and whose values would be wrong; the product it does not capture.
    """
    scans = calls(program, aten.cumsum.default, aten.cumprod.default, with_dynamic=True)
    scans = [node for node in scans if value(node.args[0]).dtype is torch.bool]
    for node in scans:
        node.replace_input_with(node.args[0], Builder(node).cast(node.args[0], torch.int64))
    return bool(scans)


def index_from_the_front(program: ExportedProgram) -> bool:
    """An index by integers that may be negative: they are counted from the front first.

    torch-mlir 20261001 lowers the index to a StableHLO gather as it stands, which clamps it or,
    through IREE 3.13, reads before the tensor: wrong values, without a word. Indices that
    cannot be negative (an arange, constants) are left alone.
    """
    changed = False
    known = KnownValues(program)
    for node in calls(program, aten.index.Tensor, with_dynamic=True):
        source, indices = node.args[:2]
        fixed: list[fx.Node | None] = []
        for dim, index in enumerate(indices):
            if index is None or value(index).dtype is torch.bool or _natural(known, index):
                fixed.append(index)
                continue
            build = Builder(node)
            negative = build(aten.lt.Scalar, index, 0)
            size: int | fx.Node = value(source).shape[dim]
            if is_symbolic(size):
                size = build(aten.sym_size.int, source, dim)
            counted = build(aten.add.Scalar, index, size)
            fixed.append(build(aten.where.self, negative, counted, index))
        if fixed != list(indices):
            node.args = (source, fixed)
            changed = True
    return changed


_ARANGES = (aten.arange.start_step, aten.arange.start, aten.arange.default)
_RESHAPED = (aten.view.default, aten.expand.default, aten.unsqueeze.default, aten.alias.default)


def _natural(known: KnownValues, index: fx.Node) -> bool:
    """Whether no element of an index can be negative, whatever the inputs are."""
    while index.target in _RESHAPED:
        index = index.args[0]
    if index.target in _ARANGES and all(isinstance(a, int) for a in index.args):
        start = index.args[0] if len(index.args) > 1 else 0
        step = index.args[2] if len(index.args) > 2 else 1
        return start >= 0 and step > 0
    constant = known(index)
    return constant is not None and bool((constant >= 0).all())


def fold_constant_nonzero(program: ExportedProgram) -> bool:
    """`nonzero`, or an index by a mask, of what the program itself fixes: its value.

    The shape of the result depends on values, which PyTorch/XLA 2.9 does not capture
    ("aten::nonzero") and torch-mlir 20261001 carries as a dynamic dimension.
    """
    changed = False
    known = KnownValues(program)
    for node in calls(program, aten.nonzero.default, aten.index.Tensor, with_dynamic=True):
        if not any(is_symbolic(size) for size in value(node).shape):
            continue
        constant = known(node)
        if constant is not None:
            replace(node, _constant(program, f"folded_{node.name}", constant))
            changed = True
        elif node.target is aten.index.Tensor:
            changed |= _fold_masks(program, known, node)
    if changed:
        settle(program)
    return changed


def _fold_masks(program: ExportedProgram, known: KnownValues, node: fx.Node) -> bool:
    """Known masks of one dimension among an index's become the places where they are True."""
    source, indices = node.args[:2]
    fixed = list(indices)
    for dim, index in enumerate(indices):
        if index is not None and value(index).dtype is torch.bool and value(index).dim() == 1:
            mask = known(index)
            if mask is not None:
                fixed[dim] = _constant(
                    program, f"folded_{node.name}_{dim}", mask.nonzero().view(-1)
                )
    node.args = (source, fixed)
    return fixed != list(indices)


MAX_ELEMENTS = 1 << 20
"""Constants larger than this are not computed at export: they would be literals."""


class KnownValues:
    """The values of a program's nodes that nothing but its own constants decide.

    Calling it with a node gives the value, or None where there is none. Each node is visited once,
    whatever the answer, and without recursion: a node of a residual chain has as many paths to it
    as there are subsets of the layers, and a deep model more layers than Python has stack frames.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        self._done: dict[fx.Node, torch.Tensor | None] = {}

    def __call__(self, node: fx.Node) -> torch.Tensor | None:
        waiting = [node]
        while waiting:
            last = waiting[-1]
            if last in self._done:
                waiting.pop()
                continue
            operands = last.all_input_nodes if _is_pure_call(last) else []
            # One unknown operand settles it: the others are not looked at.
            unknown = any(
                operand in self._done and self._done[operand] is None for operand in operands
            )
            ahead = next((operand for operand in operands if operand not in self._done), None)
            if unknown or ahead is None:
                self._done[last] = None if unknown else self._value(last)
            else:
                waiting.append(ahead)
        return self._done[node]

    def _value(self, node: fx.Node) -> torch.Tensor | None:
        """Of a node whose operands all have a value."""
        if node.op == "placeholder":
            targets = self._program.graph_signature.inputs_to_lifted_tensor_constants
            if node.name not in targets:
                return None
            return self._program.constants[targets[node.name]]
        if not _is_pure_call(node):
            return None
        args, kwargs = fx.map_arg((node.args, node.kwargs), self._done.__getitem__)
        result = node.target(*args, **kwargs)
        if not isinstance(result, torch.Tensor) or result.numel() > MAX_ELEMENTS:
            return None
        return result


def _is_pure_call(node: fx.Node) -> bool:
    """Whether a node calls an operator that gives the same values in every run."""
    return (
        node.op == "call_function"
        and isinstance(node.target, torch._ops.OpOverload)
        and torch.Tag.nondeterministic_seeded not in node.target.tags
    )


def _constant(program: ExportedProgram, name: str, known: torch.Tensor) -> fx.Node:
    """A lifted constant: an argument of the graph before those of the user, as capture makes them."""
    specs, known = program.graph_signature.input_specs, known.contiguous()
    kinds = [spec.kind for spec in specs]
    position = kinds.index(InputKind.USER_INPUT) if InputKind.USER_INPUT in kinds else len(kinds)
    places = [node for node in program.graph.nodes if node.op == "placeholder"]
    before = places[position] if position < len(places) else places[-1].next
    with program.graph.inserting_before(before):
        node = program.graph.placeholder(f"c_{name}")
    node.meta["val"] = fake_mode(program.graph).from_tensor(known, static_shapes=True)
    specs.insert(position, InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), name))
    program.constants[name] = known
    return node


# Loops in the form that lowering paths take.
_WHILE = torch.ops.higher_order.while_loop


def open_first_condition(program: ExportedProgram) -> bool:
    """The condition of a `while_loop` also depends on an argument, which is constant.

    torch-mlir 20261001 computes a first condition that does not depend on an argument, and takes a loop with a first condition
    that is true for one over a range: the condition is lost, and the loop has no end (linalg).
    """
    loops = [node for node in program.graph.nodes if node.target is _WHILE]
    if not loops:
        return False
    # IREE 3.13 does not compile a loop that carries a boolean.
    allowed = _constant(program, "loop_is_allowed", torch.tensor(1))
    for loop in loops:
        condition, body, carried, read = loop.args
        for name in (condition.target, body.target):
            inside = program.graph_module.get_submodule(name)
            last = [node for node in inside.graph.nodes if node.op == "placeholder"][-1]
            with inside.graph.inserting_after(last):
                given = inside.graph.placeholder(allowed.name)
            given.meta["val"] = value(allowed)
            if name == condition.target:
                output = inside.graph.output_node()
                result = output.args[0][0] if isinstance(output.args[0], tuple | list) else output.args[0]  # fmt: skip
                with inside.graph.inserting_before(output):
                    is_set = inside.graph.call_function(aten.ne.Scalar, (given, 0))
                    both = inside.graph.call_function(aten.logical_and.default, (result, is_set))
                for node in (is_set, both):
                    node.meta["val"] = value(result)
                output.replace_input_with(result, both)
            inside.recompile()
        loop.args = (condition, body, carried, (*read, allowed))
    return True


def carry_all_of_loops(program: ExportedProgram) -> bool:
    """What the functions of a `while_loop` read from outside becomes a value that the loop carries and does not change.

    torch-mlir 20261001 makes a loop with the results of what it carries alone, and calls its functions with both.
    """
    changed = False
    modules = [m for m in program.graph_module.modules() if isinstance(m, fx.GraphModule)]
    for module in modules:
        for node in list(module.graph.nodes):
            if node.target is _WHILE:
                changed |= _carry_all(module, node)
    return changed


def _carry_all(module: fx.GraphModule, loop: fx.Node) -> bool:
    """Change one loop of a module; return whether it reads something from outside, and nothing but tensors."""
    condition, body, carried, read = loop.args
    is_tensor = [isinstance(n, fx.Node) and isinstance(value(n), torch.Tensor) for n in read]
    if not read or not all(is_tensor):
        return False
    loop.args = (condition, body, (*carried, *read), ())
    loop.meta["val"] = (*value(loop), *map(value, read))
    loop.meta.pop("tensor_meta", None)
    inside = module.get_submodule(body.target)
    inputs = [node for node in inside.graph.nodes if node.op == "placeholder"][-len(read) :]
    output = inside.graph.output_node()
    with inside.graph.inserting_before(output):
        # The same value under another name: no result of a body may be one of its arguments.
        copies = [inside.graph.call_function(aten.clone.default, (node,)) for node in inputs]
    for copy, node in zip(copies, inputs, strict=True):
        copy.meta["val"] = value(node)
    output.args = ((*output.args[0], *copies),)
    inside.recompile()
    return True
