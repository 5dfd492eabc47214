"""Reduces a graph that fails to few operators and small shapes that fail in the same way.

Each step makes many smaller graphs and takes the smallest one that still fails. All graphs of a step are compiled together.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from scripts.tools.fuzz.generator import EAGER_ERRORS, Graph, Input, Node, Value

Fails = Callable[[Sequence[Graph]], Sequence[bool]]
"""Whether graphs fail in the way that is looked for."""
MOST, TOGETHER = 24, 8
"""Graphs of a step, and those that are compiled before it is looked whether one of them fails."""


def reduced(graph: Graph, fails: Fails, deadline: float) -> Graph:
    """The smallest failing graph that is found by `deadline` (time.monotonic)."""
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for step in (_single_results, _without_dynamic_size, _cut, _bypassed, _smaller, _without_dimensions, _simpler_values):  # fmt: skip
            while time.monotonic() < deadline:
                smaller = sorted((g for g in map(Graph.pruned, step(graph)) if size(g) < size(graph)), key=size)  # fmt: skip
                if (failing := _first_failing(smaller, fails)) is None:
                    break
                graph, is_smaller = failing, True
    return graph


def size(graph: Graph) -> tuple[int, ...]:
    """By which graphs are compared: nodes, results, dynamic dimensions, elements of inputs, and how special their values are."""
    inputs = graph.inputs.values()
    elements = sum(math.prod(argument.shape) + len(argument.shape) for argument in inputs)
    values = sum(_SIMPLE.index(i.values) for i in inputs if i.values in _SIMPLE)
    return len(graph.nodes), len(graph.results), len(graph.dimensions), elements, values


_SIMPLE = ("normal", "whole", "positive", "large", "special")


def _first_failing(graphs: Sequence[Graph], fails: Fails) -> Graph | None:
    different = list({repr(smaller): smaller for smaller in graphs}.values())[:MOST]
    for at in range(0, len(different), TOGETHER):
        step = different[at : at + TOGETHER]
        for graph, failing in zip(step, fails(step), strict=True):
            # Programs in one function may be wrong by what they share.
            if failing and (len(step) == 1 or fails([graph])[0]):
                return graph
    return None


def _single_results(graph: Graph) -> Iterator[Graph]:
    """Each value as the only result, and the graph without one of its results."""
    for name in (name for node in graph.nodes for name in node.results):
        yield dataclasses.replace(graph, results=(name,))
    for name in graph.results if len(graph.results) > 1 else ():
        yield dataclasses.replace(graph, results=tuple(n for n in graph.results if n != name))


def _without_dynamic_size(graph: Graph) -> Iterator[Graph]:
    yield graph.with_inputs(lambda argument: dataclasses.replace(argument, dynamic=()))


def _cut(graph: Graph) -> Iterator[Graph]:
    """A new input in place of a node."""
    try:
        with torch.no_grad():
            values = graph.run(graph.tensors())
    except EAGER_ERRORS:
        return
    for node in graph.nodes:
        if not set(node.results) & set(graph.results):
            inputs = {name: Input.like(values[name], _rule(values[name]), at) for at, name in enumerate(node.results)}  # fmt: skip
            nodes = tuple(other for other in graph.nodes if other is not node)
            yield Graph(graph.inputs | inputs, nodes, graph.results)


def _rule(tensor: torch.Tensor) -> str:
    """The rule of the values of an input in place of a tensor, which may be indices."""
    may_be = tensor.dtype in (torch.int64, torch.int32) and tensor.numel() and tensor.min() >= 0
    return f"index:{int(tensor.max()) + 1}" if may_be else "normal"


def _bypassed(graph: Graph) -> Iterator[Graph]:
    """A value that a node takes in place of its only result."""
    for node in graph.nodes:
        for used in dict.fromkeys(node.used) if len(node.results) == 1 else ():
            bypassed = _renamed(graph, node, {node.results[0]: used})
            if not set(bypassed.results) & set(graph.inputs):
                yield bypassed


def _renamed(graph: Graph, gone: Node, names: Mapping[str, str]) -> Graph:
    """The graph without a node, and with other values."""

    def named(leaf: Value) -> Value:
        return Value(names.get(leaf.name, leaf.name))

    nodes = tuple(node.replaced(Value, named) for node in graph.nodes if node is not gone)
    return Graph(graph.inputs, nodes, tuple(names.get(name, name) for name in graph.results))


def _smaller(graph: Graph) -> Iterator[Graph]:
    """One size smaller, wherever it is in shapes and arguments; or in a single dimension of an input."""
    leaves = pytree.tree_leaves([(node.args, node.kwargs) for node in graph.nodes])
    shapes = [argument.shape for argument in graph.inputs.values()]
    sizes = {n for n in (*leaves, *itertools.chain(*shapes)) if type(n) is int and n > 1}
    for most in (1, 2, 3, 5):
        yield resized(graph, {size: min(size, most) for size in sizes})
    for old in sorted(sizes, reverse=True):
        for new in (1, 2, 3, 4, old // 2, old - 1) if old < 2**31 else ():
            if new < old:
                yield resized(graph, {old: new})
    for name, argument in graph.inputs.items():
        for dim, old in enumerate(argument.shape):
            for new in (1, 2, old // 2):
                if 0 < new < old:
                    shape = (*argument.shape[:dim], new, *argument.shape[dim + 1 :])
                    yield _with_input(graph, name, shape=shape)


def resized(graph: Graph, sizes: Mapping[int, int], in_arguments: bool = True) -> Graph:
    """The graph with other sizes in place of some, wherever these are in shapes, and in arguments."""

    def of_number(leaf: int) -> int:
        return leaf if isinstance(leaf, bool) else sizes.get(leaf, leaf)

    def of_input(argument: Input) -> Input:
        rule, _, most = argument.values.partition(":")
        rule = f"{rule}:{of_number(int(most))}" if most else rule
        shape = tuple(map(of_number, argument.shape))
        return dataclasses.replace(argument, shape=shape, values=rule)

    resized = graph.with_inputs(of_input)
    nodes = tuple(node.replaced(int, of_number) for node in graph.nodes)
    return dataclasses.replace(resized, nodes=nodes) if in_arguments else resized


def _with_input(graph: Graph, name: str, **changes: Any) -> Graph:
    changed = dataclasses.replace(graph.inputs[name], **changes)
    return dataclasses.replace(graph, inputs=graph.inputs | {name: changed})


def _without_dimensions(graph: Graph) -> Iterator[Graph]:
    """An input without one of its dimensions of size 1."""
    for name, argument in graph.inputs.items():
        for dim, old in enumerate(argument.shape):
            if old == 1:
                shape = argument.shape[:dim] + argument.shape[dim + 1 :]
                yield _with_input(graph, name, shape=shape, dynamic=())


def _simpler_values(graph: Graph) -> Iterator[Graph]:
    for name, argument in graph.inputs.items():
        for rule in _SIMPLE[: _SIMPLE.index(argument.values)] if argument.values in _SIMPLE else ():
            yield _with_input(graph, name, values=rule)
