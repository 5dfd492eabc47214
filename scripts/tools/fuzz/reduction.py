"""Reduces a graph that fails to few operators and small shapes that fail in the same way.

Each step makes many smaller graphs and takes the smallest one that still fails. All graphs of a step are compiled together.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from scripts.tools.fuzz.generator import EAGER_ERRORS, Graph, Input, Node, Of, renumbered

Fails = Callable[[Sequence[Graph]], Sequence[bool]]
"""Whether graphs fail in the way that is looked for."""
MOST, TOGETHER = 24, 8
"""Graphs of a step, and those that are compiled before it is looked whether one of them fails."""


def reduced(graph: Graph, fails: Fails, deadline: float) -> Graph:
    """The smallest graph that was found until `deadline` (time.monotonic)."""
    steps: tuple[Callable[[Graph], Iterator[Graph]], ...] = (
        _single_results,
        _without_open_size,
        _cut,
        _bypassed,
        _smaller,
        _without_dimensions,
        _simpler_values,
    )
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for step in steps:
            while time.monotonic() < deadline:
                smaller = _first_failing(sorted(_new(step(graph), graph), key=size), fails)
                if smaller is None:
                    break
                graph, is_smaller = smaller, True
    return graph


def size(graph: Graph) -> tuple[int, ...]:
    """By which graphs are compared: nodes, results, open dimensions, elements of inputs, and how special their values are."""
    elements = sum(math.prod(argument.shape) for argument in graph.inputs)
    ranks = sum(len(argument.shape) for argument in graph.inputs)
    values = sum(
        _SIMPLE.index(argument.values) for argument in graph.inputs if argument.values in _SIMPLE
    )
    return len(graph.nodes), len(graph.results), len(graph.dimensions), elements + ranks, values


_SIMPLE = ("normal", "whole", "positive", "large", "special")


def _new(graphs: Iterable[Graph], than: Graph) -> Iterator[Graph]:
    for smaller in graphs:
        pruned = smaller.pruned()
        if size(pruned) < size(than):
            yield pruned


def _first_failing(graphs: Sequence[Graph], fails: Fails) -> Graph | None:
    different = list({repr(smaller): smaller for smaller in graphs}.values())[:MOST]
    for at in range(0, len(different), TOGETHER):
        some = different[at : at + TOGETHER]
        for graph, failing in zip(some, fails(some), strict=True):
            if failing:
                return graph
    return None


def _single_results(graph: Graph) -> Iterator[Graph]:
    """Each value as the only result, and the graph without one of its results."""
    for numbers in graph.numbers():
        for number in numbers:
            yield dataclasses.replace(graph, results=(number,))
    for number in graph.results if len(graph.results) > 1 else ():
        yield dataclasses.replace(graph, results=tuple(n for n in graph.results if n != number))


def _without_open_size(graph: Graph) -> Iterator[Graph]:
    inputs = (dataclasses.replace(argument, open=()) for argument in graph.inputs)
    yield dataclasses.replace(graph, inputs=tuple(inputs))


def _cut(graph: Graph) -> Iterator[Graph]:
    """A new input in place of a node."""
    try:
        with torch.no_grad():
            values = graph.run(graph.tensors())
    except EAGER_ERRORS:
        return
    for place, numbers in enumerate(graph.numbers()):
        if not set(numbers) & set(graph.results):
            yield _replaced(graph, place, [_input_like(values[n], n) for n in numbers])


def _input_like(tensor: torch.Tensor, seed: int) -> Input:
    rule = "normal"
    if tensor.dtype in (torch.int64, torch.int32) and tensor.numel() and tensor.min() >= 0:
        rule = f"index:{int(tensor.max()) + 1}"
    return Input(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), rule, seed)


def _replaced(graph: Graph, place: int, inputs: Sequence[Input]) -> Graph:
    """The graph without a node, whose results are further inputs."""
    gone, count = graph.numbers()[place], len(graph.inputs)
    total = count + sum(node.count for node in graph.nodes)
    known = {old: old for old in range(count)}
    known |= {old: count + number for number, old in enumerate(gone)}
    for old in range(count, total):
        known.setdefault(old, len(known))
    nodes = [renumbered(node, known) for at, node in enumerate(graph.nodes) if at != place]
    results = tuple(known[number] for number in graph.results)
    return Graph((*graph.inputs, *inputs), tuple(nodes), results)


def _bypassed(graph: Graph) -> Iterator[Graph]:
    """A value that a node takes in place of its only result."""
    numbers = graph.numbers()
    total = len(graph.inputs) + sum(node.count for node in graph.nodes)
    for place, node in enumerate(graph.nodes):
        if node.count == 1:
            (gone,) = numbers[place]
            for used in dict.fromkeys(node.used):
                others = {n: used if n == gone else n for n in range(total)}
                nodes = tuple(renumbered(later, others) if at > place else later for at, later in enumerate(graph.nodes))  # fmt: skip
                results = tuple(others[number] for number in graph.results)
                if min(results) >= len(graph.inputs):
                    yield dataclasses.replace(graph, nodes=nodes, results=results)


def _smaller(graph: Graph) -> Iterator[Graph]:
    """One size smaller, wherever it is in shapes and arguments; or in a single dimension of an input."""
    for most in (1, 2, 3, 5):
        yield _resized(graph, functools.partial(_at_most, most))
    sizes = {n for argument in graph.inputs for n in argument.shape}
    sizes |= {n for node in graph.nodes for n in _numbers(node) if n > 1}
    for old in sorted(sizes, reverse=True):
        for new in dict.fromkeys((1, 2, 3, 4, old // 2, old - 1)):
            if 0 < new < old:
                yield _resized(graph, functools.partial(_instead, old, new))
    for at, argument in enumerate(graph.inputs):
        for dim, old in enumerate(argument.shape):
            for new in dict.fromkeys((1, 2, old // 2)):
                if 0 < new < old:
                    shape = (*argument.shape[:dim], new, *argument.shape[dim + 1 :])
                    yield _with_input(graph, at, dataclasses.replace(argument, shape=shape))


def _at_most(most: int, size: int) -> int:
    return min(size, most) if size > 0 else size


def _instead(old: int, new: int, size: int) -> int:
    return new if size == old else size


def _numbers(node: Node) -> Iterator[int]:
    for leaf in pytree.tree_leaves((node.args, node.kwargs)):
        if isinstance(leaf, int) and not isinstance(leaf, bool) and leaf < 2**31:
            yield leaf


def _resized(graph: Graph, size_of: Callable[[int], int]) -> Graph:
    def resized(leaf: Any) -> Any:
        is_size = isinstance(leaf, int) and not isinstance(leaf, bool | Of)
        return size_of(leaf) if is_size else leaf

    inputs = []
    for argument in graph.inputs:
        rule, _, most = argument.values.partition(":")
        rule = f"{rule}:{size_of(int(most))}" if most else rule
        inputs.append(
            dataclasses.replace(argument, shape=tuple(map(size_of, argument.shape)), values=rule)
        )
    nodes = []
    for node in graph.nodes:
        args, kwargs = pytree.tree_map(resized, (node.args, node.kwargs))
        nodes.append(Node(node.op, args, kwargs, node.count))
    return Graph(tuple(inputs), tuple(nodes), graph.results)


def _with_input(graph: Graph, at: int, argument: Input) -> Graph:
    return dataclasses.replace(
        graph, inputs=(*graph.inputs[:at], argument, *graph.inputs[at + 1 :])
    )


def _without_dimensions(graph: Graph) -> Iterator[Graph]:
    """An input without one of its dimensions of size 1."""
    for at, argument in enumerate(graph.inputs):
        for dim, old in enumerate(argument.shape):
            if old == 1:
                shape = argument.shape[:dim] + argument.shape[dim + 1 :]
                yield _with_input(graph, at, dataclasses.replace(argument, shape=shape, open=()))


def _simpler_values(graph: Graph) -> Iterator[Graph]:
    for at, argument in enumerate(graph.inputs):
        if argument.values in _SIMPLE:
            for rule in _SIMPLE[: _SIMPLE.index(argument.values)]:
                yield _with_input(graph, at, dataclasses.replace(argument, values=rule))
