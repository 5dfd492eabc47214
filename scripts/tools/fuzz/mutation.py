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
    sizes = {size for i in graph.inputs.values() for size in i.shape if size > 1}
    other = {
        size: chooser.choice((size, *generator.SIZES, *generator.LARGE)) for size in sorted(sizes)
    }
    dtypes: dict[str, str] = {}
    if in_arguments := chooser.random() < 0.5:
        graph = reduction.resized(graph, lambda size: other.get(size, size))

    def input_of(argument: Input) -> Input:
        shape = argument.shape if in_arguments else tuple(other.get(size, size) for size in argument.shape)  # fmt: skip
        is_index = argument.values.startswith(("index", "once"))
        dtype = getattr(torch, argument.dtype)
        kinds = generator.FLOATS if dtype.is_floating_point else generator.INTEGERS
        if not is_index and dtype is not torch.bool and argument.dtype not in dtypes:
            dtypes[argument.dtype] = str(chooser.choice((dtype, *kinds))).removeprefix("torch.")
        return dataclasses.replace(
            argument,
            shape=shape,
            dtype=argument.dtype if is_index else dtypes.get(argument.dtype, argument.dtype),
            values=chooser.choice(generator.VALUES) if dtype.is_floating_point else argument.values,
            seed=chooser.getrandbits(31),
            open=(),
        )

    return graph.with_inputs(input_of)
