"""What the rewrites share: rules, nodes with types, and a program that is whole again after them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, TensorArgument
from torch.fx.experimental.symbolic_shapes import free_symbols, free_unbacked_symbols

aten = torch.ops.aten

WIDE = (torch.float32, torch.float64)
"""Types in which the order of a sum, and where a value is rounded, may change. In types of 16 bits this would be visible."""

Rule = Callable[[fx.Node], fx.Node | dict[int, fx.Node] | None]
"""Returns what replaces a call: a node, or a node for each of its results by number; None leaves the call as it is."""


def each(
    *targets: Any, with_dynamic: bool = False
) -> Callable[[Rule], Callable[[ExportedProgram], bool]]:
    """Make a rewrite of a rule for calls of `targets`; it returns whether any was replaced. `with_dynamic`: as for `calls`."""

    def decorate(rule: Rule) -> Callable[[ExportedProgram], bool]:
        @functools.wraps(rule)
        def rewrite(program: ExportedProgram) -> bool:
            changed = False
            for node in calls(program, *targets, with_dynamic=with_dynamic):
                new = rule(node)
                if new is None:
                    continue
                if isinstance(new, dict):
                    for user in list(node.users):
                        replace(user, new[user.args[1]])
                    node.graph.erase_node(node)
                else:
                    replace(node, new)
                changed = True
            return changed

        return rewrite

    return decorate


def value(node: fx.Node) -> Any:
    """What capture says a node's result is: a fake tensor, a SymInt, …"""
    return node.meta["val"]


def calls(program: ExportedProgram, *targets, with_dynamic: bool = False) -> list[fx.Node]:
    """The nodes that call one of `targets`, as a list: a rewrite may add and erase nodes.

    `with_dynamic`: also those with a tensor of a dynamic size, with which most rewrites cannot compute.
    """
    nodes = program.graph.nodes
    callers = [node for node in nodes if node.op == "call_function" and node.target in targets]
    return callers if with_dynamic else [node for node in callers if not has_dynamic_size(node)]


def has_dynamic_size(node: fx.Node) -> bool:
    """Whether a result or operand of a call has a size that depends on those of the inputs."""
    tensors = [tensor for other in (node, *node.all_input_nodes) for tensor in _tensors(other)]
    return any(
        is_symbolic(size) and bool(free_symbols(size) - free_unbacked_symbols(size))
        for tensor in tensors
        for size in tensor.shape
    )


def _tensors(node: fx.Node) -> list[torch.Tensor]:
    result = node.meta.get("val")
    results = result if isinstance(result, tuple | list) else [result]
    return [tensor for tensor in results if isinstance(tensor, torch.Tensor)]


def argument(node: fx.Node, name: str) -> Any:
    """An argument of an operator call by its schema's name, given or by default."""
    for position, declared in enumerate(node.target._schema.arguments):
        if declared.name == name:
            if position < len(node.args):
                return node.args[position]
            return node.kwargs.get(name, declared.default_value)
    raise KeyError(f"{node.target} has no argument {name}")


def is_symbolic(size: Any) -> bool:
    """Whether a size is known at run time only: it depends on data, or on a dynamic dimension of an input."""
    return not isinstance(size, int)


def is_static(*tensors: fx.Node) -> bool:
    """Whether all sizes of these tensors are numbers."""
    return not any(is_symbolic(size) for tensor in tensors for size in value(tensor).shape)


def per_dimension(node: fx.Node, name: str, rank: int = 2) -> list[int]:
    """An argument of a convolution or pool for each of its dimensions; it may be given once for all."""
    given = list(argument(node, name))
    return given * rank if len(given) == 1 else given


MODULES = "nn_module_stack"
"""The key of a node's metadata with its modules, from which locations.py takes them."""


class Builder:
    """Adds calls before a node, each typed as capture would have typed it.

    They belong to the nn.Module of the node `like`, or of `before` if it is None. `typed=False` leaves
    types to `settle`, where arguments' types are about to change.
    """

    def __init__(self, before: fx.Node, typed: bool = True, like: fx.Node | None = None) -> None:
        self.before = before
        self.typed = typed
        self.like = like or before

    def __call__(self, target, *args, **kwargs) -> fx.Node:
        """A node that calls `target`; tensors among the arguments are nodes."""
        graph = self.before.graph
        with graph.inserting_before(self.before):
            node = graph.call_function(target, args, kwargs)
        if MODULES in self.like.meta:
            node.meta[MODULES] = self.like.meta[MODULES]
        if self.typed:
            retype(node)
        return node

    def arange(self, start: int, end: int, step: int) -> fx.Node:
        """The positions from `start` to `end`, as int64."""
        device = torch.device("cpu")
        return self(aten.arange.start_step, start, end, step, dtype=torch.int64, device=device)

    def cast(self, tensor: fx.Node, dtype: torch.dtype) -> fx.Node:
        """The tensor in another type."""
        return self(aten._to_copy.default, tensor, dtype=dtype)

    def contiguous(self, tensor: fx.Node) -> fx.Node:
        """A copy that may be viewed in any shape."""
        return self(aten.clone.default, tensor, memory_format=torch.contiguous_format)

    def full(self, size: list[int], number: float | bool, dtype: torch.dtype) -> fx.Node:
        """A tensor of one number. PyTorch/XLA moves what names its device, and nothing else."""
        return self(aten.full.default, size, number, dtype=dtype, device=torch.device("cpu"))

    def where(self, condition: fx.Node, chosen: fx.Node, number: float | bool) -> fx.Node:
        """`chosen` where the condition holds, else `number` in its type."""
        return self(aten.where.self, condition, chosen, self.full([], number, value(chosen).dtype))


def retype(node: fx.Node) -> None:
    """Compute a call's type again from those of its arguments."""
    mode = fake_mode(node.graph)
    args, kwargs = fx.map_arg((node.args, node.kwargs), value)
    with mode, torch.no_grad():
        node.meta["val"] = node.target(*args, **kwargs)
    node.meta.pop("tensor_meta", None)  # what torch-mlir reads first, if capture left it


def fake_mode(graph: fx.Graph):
    """The mode that the graph's fake tensors belong to."""
    for node in graph.nodes:
        if isinstance(tensor := node.meta.get("val"), torch._subclasses.FakeTensor):
            return tensor.fake_mode
    raise ValueError("the graph has no tensors")


def replace(old: fx.Node, new: fx.Node) -> None:
    """Let every user of `old` take `new`, and drop `old`."""
    old.replace_all_uses_with(new)
    old.graph.erase_node(old)


def operands(node: fx.Node) -> Iterator[fx.Node]:
    """The tensors among a call's arguments, in order, lists opened."""
    for operand in node.all_input_nodes:
        if isinstance(operand.meta.get("val"), torch.Tensor):
            yield operand


CHECKS = (
    aten._assert_scalar.default,
    aten.sym_constrain_range.default,
    aten.sym_constrain_range_for_size.default,
)
"""Assertions about sizes."""


def settle(program: ExportedProgram) -> None:
    """Type every call again, in order; sizes that are numbers now become numbers."""
    for node in list(program.graph.nodes):
        if node.op != "call_function":
            continue
        if node.target in CHECKS and not isinstance(node.args[0], fx.Node):
            node.graph.erase_node(node)  # what it asserts of a size has been decided
            continue
        retype(node)
        if isinstance(number := node.meta["val"], bool | int | float):
            for user in list(node.users):
                user.args, user.kwargs = fx.map_arg(
                    (user.args, user.kwargs),
                    lambda n, node=node, number=number: number if n is node else n,
                )
            node.graph.erase_node(node)


def finish(program: ExportedProgram) -> None:
    """Drop what nothing uses, and let the signatures name the outputs that there are now."""
    graph, signature = program.graph, program.graph_signature
    graph.eliminate_dead_code()
    output = graph.output_node()
    named = [_followed(node) for node in output.args[0]]
    output.args = (tuple(named),)
    graph.lint()
    for spec, node in zip(signature.output_specs, named, strict=True):
        if isinstance(node, fx.Node):
            spec.arg.name = node.name
    # The signature of the call names the outputs too, and torch.export checks it.
    call = program.module_call_graph[0].signature if program.module_call_graph else None
    specs = [spec for spec in signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]
    if call is not None and len(call.outputs) == len(specs):
        for declared, spec in zip(call.outputs, specs, strict=True):
            if isinstance(spec.arg, TensorArgument) and isinstance(declared, TensorArgument):
                declared.name = spec.arg.name
    program.graph_module.recompile()


def _followed(output: Any) -> Any:
    """An output that keeps its name, or has a known new one, when torch.export decomposes the program again.

    It numbers the results of operators with several of them anew, and does not follow their names
    ("Output getitem_160 does not exist in the graph", PyTorch 2.9).
    """
    if not isinstance(output, fx.Node) or output.target is not operator.getitem:
        return output
    with output.graph.inserting_after(output):
        node = output.graph.call_function(aten.alias.default, (output,))
    node.meta = {key: output.meta[key] for key in ("val", MODULES) if key in output.meta}
    return node


SAME = (aten.alias.default, aten.detach.default, aten.clone.default)

RESHAPED = (*SAME, aten.view.default, aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims)


def source_of(node: fx.Node, through: Container[Any] = SAME) -> fx.Node:
    """What a node is a copy of; what operators of `through` have made it of."""
    while node.target in through:
        node = node.args[0]
    return node


def of_type(call: Builder, operands: Iterable[Any], dtype: torch.dtype) -> list[fx.Node]:
    """Tensors and numbers as tensors of a type."""
    tensors = []
    for operand in operands:
        if not isinstance(operand, fx.Node) or not isinstance(value(operand), torch.Tensor):
            tensors.append(call.full([], operand, dtype))
        else:
            tensors.append(operand if value(operand).dtype is dtype else call.cast(operand, dtype))
    return tensors
