"""Parts of models as graphs, which are mutated (mutation.py): some operators in the order of the program, as a layer has."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from scripts.frontends.lowering import capture
from scripts.frontends.torch_model.loading import LoadedModel
from scripts.tools.fuzz.generator import DTYPES, Graph, Input, Node, Value

CALLS = 12
"""Operator calls of a part; the next part begins after half of them."""
_PLACES = ("device", "layout", "pin_memory", "memory_format")
"""Arguments that change no values."""


def of_model(model: LoadedModel) -> list[Graph]:
    """Parts of a model's program, one of each sequence of operators. Raises what torch.export raises."""
    nodes = capture.flat_program(model).graph.nodes
    calls = [node for node in nodes if node.op == "call_function"]
    parts = [calls[at : at + CALLS] for at in range(0, len(calls), CALLS // 2)]
    graphs = [graph for part in parts if (graph := layer(part))]
    return list({tuple(graph.operators): graph for graph in graphs}.values())


def layer(calls: Sequence[fx.Node]) -> Graph | None:
    """Operator calls as a graph whose inputs are what other calls compute, and the weights; None if one of these is no tensor of DTYPES."""
    inputs: dict[str, Input] = {}
    nodes: list[Node] = []
    names: dict[fx.Node, list[str]] = {}

    def value(node: fx.Node) -> Any:
        tensor = node.meta["val"]
        if node not in names:
            if not isinstance(tensor, torch.Tensor) or tensor.dtype not in DTYPES:
                raise TypeError(node.name)
            rule = "normal" if tensor.is_floating_point() else "index:2"
            inputs[node.name] = Input.like(tensor, rule, len(inputs))
            names[node] = [node.name]
        return Value(names[node][0])

    for call in calls:
        results = call.meta["val"]
        if call.target is operator.getitem:
            if call.args[0] in names:
                names[call] = [names[call.args[0]][call.args[1]]]
            continue
        try:
            args, kwargs = fx.map_arg((call.args, call.kwargs), value)
        except TypeError:
            return None
        outputs = [call.name] if isinstance(results, torch.Tensor) else [f"{call.name}_{n}" for n in range(len(results))]  # fmt: skip
        kwargs = {name: v for name, v in kwargs.items() if name not in _PLACES}
        nodes.append(Node(str(call.target), tuple(args), kwargs, tuple(outputs)))
        names[call] = outputs
    used = {name for node in nodes for name in node.used}
    tensors = [names[c][0] for c in calls if c in names and isinstance(c.meta["val"], torch.Tensor)]
    results = tuple(name for name in tensors if name not in used)
    return Graph(inputs, tuple(nodes), results).pruned() if results else None
