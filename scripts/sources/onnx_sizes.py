"""Proposes sizes of the open dimensions of an ONNX graph that does not run with the size 1: those that its constants, its metadata and
the test data beside it name, and usual ones, are tried in a fixed order."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import onnx

from scripts.sources import onnx_graph

USUAL = (2, 4, 8, 16, 32, 64, 128, 256, 512, 224, 3, 5, 7)
LARGEST = 4096
MOST_TRIES = 100
ALONE = 6
"""Open dimensions of which each is tried alone."""
Runs = Callable[[dict[str, int]], bool]
"""Whether a graph runs with these sizes, by the names of the dimensions."""


def candidates(path: Path, model: onnx.ModelProto) -> list[int]:
    """Sizes to try, the likeliest first."""
    sizes = (*_of_metadata(model), *_of_test_data(path), *_of_shapes(model), *USUAL, *_of_weights(model))  # fmt: skip
    return [size for size in dict.fromkeys(sizes) if 1 < size <= LARGEST]


def proposed(names: Sequence[str], sizes: Sequence[int], runs: Runs) -> dict[str, int]:
    """Sizes other than 1 with which a graph runs: of one dimension, else of all, less those that may be 1; {} if none of
    MOST_TRIES was right."""
    tries = (
        dict.fromkeys(chosen, size)
        for size in sizes
        for chosen in (*((name,) for name in names[:ALONE]), *([tuple(names)] if len(names) > 1 else []))
    )  # fmt: skip
    right = next(filter(runs, itertools.islice(tries, MOST_TRIES)), {})
    for name in list(right) if len(right) <= ALONE else ():
        fewer = {other: size for other, size in right.items() if other != name}
        if fewer and runs(fewer):
            right = fewer
    return right


def _of_metadata(model: onnx.ModelProto) -> Iterator[int]:
    for entry in model.metadata_props:
        yield from map(int, re.findall(r"(?<![\d.])\d{1,4}(?![\d.])", entry.value))


def _of_test_data(path: Path) -> Iterator[int]:
    for file in onnx_graph.test_inputs(path):
        yield from onnx.load_tensor(str(file)).dims


def _of_shapes(model: onnx.ModelProto) -> Iterator[int]:
    """The values of small integer constants, such as the shapes of Reshape, and the sizes of kernels."""
    for tensor in onnx_graph.tensors_of(model):
        if tensor.data_type == onnx.TensorProto.INT64 and len(tensor.dims) == 1 and tensor.dims[0] <= 8:  # fmt: skip
            yield from onnx.numpy_helper.to_array(tensor).tolist()
    for graph in onnx_graph.graphs(model.graph):
        for node in graph.node:
            yield from (size for entry in node.attribute if entry.name == "kernel_shape" for size in entry.ints)  # fmt: skip


def _of_weights(model: onnx.ModelProto) -> Iterator[int]:
    for tensor in onnx_graph.tensors_of(model):
        yield from tensor.dims
