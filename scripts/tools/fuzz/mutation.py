"""Mutations of a graph: the same operators on inputs of other sizes, dtypes and values."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random

import torch

from scripts.tools.fuzz import generator, reduction
from scripts.tools.fuzz.generator import Graph, Input


def mutated(graph: Graph, seed: int, number: int) -> Graph | None:
    """Mutation `number` of a graph; None if eager takes none of those that were tried."""
    chooser = random.Random(f"{seed}/{number}")
    for _ in range(generator.ATTEMPTS):
        changed = _changed(graph, chooser)
        if any(math.prod(i.shape) > generator.MOST_ELEMENTS for i in changed.inputs.values()):
            continue
        with contextlib.suppress(*generator.EAGER_ERRORS), torch.no_grad():
            values = changed.run(changed.tensors())
            if changed.inputs != graph.inputs and all(map(generator.is_small, values.values())):
                return changed
    return None


def _changed(graph: Graph, chooser: random.Random) -> Graph:
    """A graph in which each size of the inputs and each dtype may be another one, wherever it occurs, at times in arguments too. Sizes of 1,
    which broadcast, stay."""
    sizes = sorted({size for i in graph.inputs.values() for size in i.shape if size > 1})
    other = {n: chooser.choice((n, *generator.SIZES, *generator.LARGE)) for n in sizes}
    graph = reduction.resized(graph, other, chooser.random() < 0.5)
    dtypes: dict[torch.dtype, torch.dtype] = {}

    def input_of(argument: Input) -> Input:
        dtype, rule = getattr(torch, argument.dtype), argument.values
        if dtype.is_floating_point:
            rule = chooser.choice(generator.VALUES)
        if dtype is not torch.bool and not rule.startswith(("index", "once")):
            kinds = generator.FLOATS if dtype.is_floating_point else generator.INTEGERS
            dtype = dtypes.setdefault(dtype, chooser.choice((dtype, *kinds)))
        name, seed = str(dtype).removeprefix("torch."), chooser.getrandbits(31)
        return dataclasses.replace(argument, dtype=name, values=rule, seed=seed, dynamic=())

    return graph.with_inputs(input_of)
