"""The captured graph of a model: the value of each node in eager mode, and parts of it as models of their own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from scripts.lowering import capture
from scripts.torch_model.loading import LoadedModel

UNSET = "empty"
"""In the names of operators whose results have no defined values (`aten.empty.memory_format`)."""


@dataclass(frozen=True)
class Graph:
    """A functional graph with its weights, and what its nodes compute in eager mode.

    `eager`: the tensors of inputs, weights and operators. `operators`: the nodes that compute one tensor, in order.
    """

    module: fx.GraphModule
    eager: dict[fx.Node, torch.Tensor]
    operators: tuple[fx.Node, ...]


@dataclass(frozen=True)
class Part:
    """Some operators of a graph, as a module that returns a list. `inputs`: what it is called with."""

    module: fx.GraphModule
    inputs: tuple[torch.Tensor, ...]
    nodes: tuple[fx.Node, ...]

    def model(self) -> LoadedModel:
        """The same for exporters."""
        return LoadedModel("part", self.module, self.inputs, {}, file=None)


def of(loaded: LoadedModel) -> Graph:
    """The graph of a model, run once. Raises what torch.export raises, and capture.UnsupportedProgram."""
    # Only in a functional graph does each node have one value.
    program = capture.functional(capture.capture(loaded), {})
    capture.results(program)
    module = program.module(check_guards=False)
    recorder = _Recorder(module)
    with torch.no_grad():
        recorder.run(*(tensor for _, tensor in loaded.inputs))
    operators = tuple(
        node
        for node in recorder.eager
        if node.op == "call_function" and UNSET not in str(node.target)
    )
    return Graph(module, recorder.eager, operators)


class _Recorder(fx.Interpreter):
    """Runs a graph and keeps the tensors that its nodes compute."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.eager: dict[fx.Node, torch.Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, torch.Tensor) and n.op != "output":
            self.eager[n] = value.detach()
        return value


def with_results(graph: Graph, nodes: Sequence[fx.Node]) -> Part:
    """The whole graph with the values of these nodes as its results."""
    copy, known = fx.Graph(), dict[fx.Node, fx.Node]()
    copy.graph_copy(graph.module.graph, known)
    copy.output([known[node] for node in nodes])
    inputs = (graph.eager[n] for n in graph.module.graph.nodes if n.op == "placeholder")
    return Part(fx.GraphModule(graph.module, copy), tuple(inputs), tuple(nodes))


def around(graph: Graph, node: fx.Node, steps: int) -> Part:
    """An operator with the ones up to `steps` before it. All other tensors that it uses are inputs, also weights."""
    nodes = border = {node} | _not_tensors(graph, {node})
    for _ in range(steps):
        before = {used for near in border for used in near.all_input_nodes} - nodes
        border = {used for used in before if used.op == "call_function"}
        border |= _not_tensors(graph, border)
        nodes = nodes | border
    ordered = [each for each in graph.module.graph.nodes if each in nodes]
    outer = dict.fromkeys(
        used for each in ordered for used in each.all_input_nodes if used not in nodes
    )
    copy = fx.Graph()
    known = {used: copy.placeholder(f"input_{number}") for number, used in enumerate(outer)}
    for each in ordered:
        known[each] = copy.node_copy(each, known.__getitem__)
        known[each].meta = {}
        _name_arguments(known[each])
    copy.output([known[node]])
    inputs = tuple(graph.eager[used] for used in outer)
    operators = tuple(each for each in ordered if each.op != "get_attr")
    return Part(fx.GraphModule(graph.module, copy), inputs, operators)


def _not_tensors(graph: Graph, nodes: Collection[fx.Node]) -> set[fx.Node]:
    """The nodes behind others that compute something else than one tensor, such as a tuple."""
    behind: set[fx.Node] = set()
    left = list(nodes)
    while left:
        new = {used for used in left.pop().all_input_nodes if used not in graph.eager} - behind
        behind |= new
        left += new
    return behind


def _name_arguments(node: fx.Node) -> None:
    """Give the arguments of an operator that are no tensors their names (`ceil_mode=True`), for people."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return
    names = [argument.name for argument in node.target._schema.arguments]
    first = next((n for n, value in enumerate(node.args) if not isinstance(value, fx.Node)), None)
    if first is not None:
        node.kwargs = dict(zip(names[first:], node.args[first:], strict=False)) | node.kwargs
        node.args = node.args[:first]
