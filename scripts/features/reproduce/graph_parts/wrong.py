"""Finds the operator: compares the values of all nodes of a graph, then the first wrong ones by themselves.

A node whose value is wrong may only have been given wrong values. So each candidate is also lowered as a program of its
own, with the values of eager mode as its inputs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import fx

from scripts.features.reproduce.graph_parts import graph as graphs
from scripts.features.reproduce.graph_parts.computed import Compiled, Lowering
from scripts.features.reproduce.graph_parts.graph import Graph, Part
from scripts.features.reproduce.reduction.mismatch import differs
from scripts.torch_model import convert
from scripts.torch_model.loading import LoadedModel

AROUND = (0, 1, 2, 4)
"""How many operators before one are lowered together with it, until the difference shows."""
CANDIDATES = 10
"""Nodes with wrong values that are tried by themselves, in the order of the graph."""
SIZES = (1, 2, 3, 4, 5, 6, 8, 16, 32, 64, 128)
"""Sizes of dimensions that are tried, the smallest first."""

Wrong = tuple[Part, torch.Tensor, Compiled, np.ndarray]
"""A part, its eager result, its program, and what that computes."""


class NotFound(Exception):
    """No operator computes other values. Says what was compared."""


@dataclass(frozen=True)
class Found:
    """`node`: whose value is wrong. `part`: the smallest part that shows it; `eager`: its right result. `computed`: what its
    program computes. `nodes`: of the graph; `wrong`: those with wrong values, None if this is not
    known."""

    node: fx.Node
    part: Part
    eager: torch.Tensor
    compiled: Compiled
    computed: np.ndarray
    nodes: int
    wrong: int | None


def find(loaded: LoadedModel, lowering: Lowering, deadline: float) -> Found:
    """Return the first operator of a model that is wrong, with inputs that are as small as possible.

    `deadline`: by time.monotonic; after it, the smallest inputs found so far are kept. Raises NotFound, and what torch and
    the exporter raise.
    """
    graph = graphs.of(loaded)
    wrong = _all_wrong(graph, lowering, deadline)
    if wrong == []:
        raise NotFound(
            f"at O0, the values of all {len(graph.operators)} nodes are those of eager mode"
        )
    for part, node in _candidates(graph, wrong):
        if time.monotonic() > deadline:
            break
        if found := _wrong(part, lowering, deadline):
            found = _shrunk(found, lowering, deadline)
            known = None if wrong is None else len(wrong)
            return Found(node, *found, len(graph.operators), known)
    raise NotFound(_said(graph, wrong))


def _all_wrong(graph: Graph, lowering: Lowering, deadline: float) -> list[fx.Node] | None:
    """The nodes with other values than in eager mode; None if the program with the values of all nodes does not compile."""
    whole = lowering.compiled(graphs.with_results(graph, graph.operators), _left(deadline))
    if whole.module is None:
        print(f"the program with the values of all nodes does not compile: {whole.why}", flush=True)
        return None
    pairs = zip(graph.operators, lowering.outputs(whole), strict=True)
    return [node for node, value in pairs if differs(convert.to_numpy(graph.eager[node]), value)]


def _candidates(graph: Graph, wrong: list[fx.Node] | None) -> Iterator[tuple[Part, fx.Node]]:
    """The parts that are lowered by themselves: the first wrong nodes with more and more of the operators before them; if it
    is not known which nodes are wrong, each node."""
    if wrong is None:
        yield from ((graphs.around(graph, node, 0), node) for node in graph.operators)
        return
    for steps in AROUND:
        for node in wrong[:CANDIDATES]:
            yield graphs.around(graph, node, steps), node


def _said(graph: Graph, wrong: list[fx.Node] | None) -> str:
    """What was compared without a result."""
    if wrong is None:
        return f"no node by itself has other values at O0 than in eager mode, of {len(graph.operators)}, or the time was over"
    return (
        f"at O0, {len(wrong)} of {len(graph.operators)} nodes have other values than in eager mode, the first is {wrong[0]}, "
        f"but none of the first {min(CANDIDATES, len(wrong))} has by itself, or the time was over"
    )


def _left(deadline: float) -> float:
    return max(1.0, deadline - time.monotonic())


def _wrong(part: Part, lowering: Lowering, deadline: float) -> Wrong | None:
    """A part, its eager result, its program and what that computes, if the two differ."""
    with torch.no_grad():
        [eager] = part.module(*part.inputs)
    compiled = lowering.compiled(part, _left(deadline))
    if compiled.module is None:
        return None
    [computed] = lowering.outputs(compiled)
    return (part, eager, compiled, computed) if differs(convert.to_numpy(eager), computed) else None


def _shrunk(found: Wrong, lowering: Lowering, deadline: float) -> Wrong:
    """The same with smaller inputs, as long as the difference shows. All dimensions of one size shrink together."""
    sizes = sorted(
        {size for one in found[0].inputs for size in one.shape if size > 1}, reverse=True
    )
    for size in sizes:
        found = next(_smaller(found[0], size, lowering, deadline), found)
    return found


def _smaller(part: Part, size: int, lowering: Lowering, deadline: float) -> Iterator[Wrong]:
    """Parts with a smaller size in place of `size` that are wrong too."""
    for wanted in (one for one in SIZES if one < size):
        if time.monotonic() > deadline:
            return
        inputs = tuple(_cut(one, size, wanted) for one in part.inputs)
        try:
            found = _wrong(replace(part, inputs=inputs), lowering, deadline)
        except (
            Exception
        ):  # not a size for these operators; each package has error classes of its own
            continue
        if found:
            yield found


def _cut(tensor: torch.Tensor, size: int, wanted: int) -> torch.Tensor:
    """The beginning of each dimension of this size."""
    index = tuple(slice(wanted if n == size else None) for n in tensor.shape)
    return tensor[index].contiguous() if index else tensor
