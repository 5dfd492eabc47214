"""Values that are known before the program runs."""

from __future__ import annotations

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

from scripts.lowering.fx_rewrites.edit import (
    Builder,
    aten,
    calls,
    fake_mode,
    is_symbolic,
    replace,
    settle,
    value,
)


def index_from_the_front(program: ExportedProgram) -> bool:
    """An index by integers that may be negative: they are counted from the front first.

    torch-mlir 20261001 lowers the index to a StableHLO gather as it stands, which clamps it or,
    through IREE 3.13, reads before the tensor: wrong values, without a word. Indices that
    cannot be negative (an arange, constants) are left alone.
    """
    changed = False
    known = KnownValues(program)
    for node in calls(program, aten.index.Tensor, with_open=True):
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
    for node in calls(program, aten.nonzero.default, aten.index.Tensor, with_open=True):
        if not any(is_symbolic(size) for size in value(node).shape):
            continue
        constant = known(node)
        if constant is not None:
            replace(node, _constant(program, node.name, constant))
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
                fixed[dim] = _constant(program, f"{node.name}_{dim}", mask.nonzero().view(-1))
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
    """A lifted constant: an argument of the graph, as capture makes them."""
    specs = program.graph_signature.input_specs
    position = next(
        (i for i, spec in enumerate(specs) if spec.kind is InputKind.USER_INPUT), len(specs)
    )
    places = [n for n in program.graph.nodes if n.op == "placeholder"]
    before = places[position] if position < len(places) else places[-1].next
    with program.graph.inserting_before(before):
        constant = program.graph.placeholder(f"c_folded_{name}")
    constant.meta["val"] = fake_mode(program.graph).from_tensor(
        known.contiguous(), static_shapes=True
    )
    target = f"folded_{name}"
    spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(name=constant.name), target)
    specs.insert(position, spec)
    program.constants[target] = known.contiguous()
    return constant
