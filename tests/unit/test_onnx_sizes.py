"""Sizes that are proposed for dynamic dimensions of an ONNX graph: the same ones on every machine, after few tries."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from scripts.frontends.sources import onnx_graph

SHAPE = numpy_helper.from_array(np.array([48, -1], np.int64), "shape")
WEIGHT = numpy_helper.from_array(np.zeros((20, 6), np.float32), "w")


def model() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[11, 11]),
    ]
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "seq"])
    graph = helper.make_graph(nodes, "m", [value], [], [SHAPE, WEIGHT])
    made = helper.make_model(graph)
    helper.set_model_props(made, {"vocab": "997", "version": "1.25"})
    return made


def test_sizes_of_metadata_test_data_and_constants_are_tried_before_usual_ones(tmp_path):
    (tmp_path / "test_data_set_0").mkdir()
    data = numpy_helper.from_array(np.zeros((1, 77), np.float32))
    onnx.save_tensor(data, tmp_path / "test_data_set_0" / "input_0.pb")
    sizes = onnx_graph.candidates(tmp_path / "m.onnx", model())
    assert sizes[:5] == [997, 77, 48, 11, 2]
    assert sizes[-2:] == [20, 6]


@pytest.mark.parametrize(
    ("right", "proposed"),
    [
        ({"seq": 16}, {"seq": 16}),
        ({"n": 4, "seq": 4}, {"n": 4, "seq": 4}),
        ({"h": 8, "w": 8}, {"h": 8, "w": 8}),
        ({"n": 5001}, {}),
    ],
)
def test_dimensions_that_may_be_one_are_not_in_the_proposal(right, proposed):
    tried: list[dict[str, int]] = []

    def runs(sizes: dict[str, int]) -> bool:
        tried.append(sizes)
        return right.items() <= sizes.items()

    assert onnx_graph.proposed(["n", "seq", "h", "w"], onnx_graph.USUAL, runs) == proposed
    assert len(tried) <= onnx_graph.MOST_TRIES
