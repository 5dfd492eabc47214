"""ONNX files and programs of MLIR: verified on IREE like every model, or a reason that names what is not supported."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.checkouts import QUICK

FLOAT = TensorProto.FLOAT
ON_CPU = {"targets": "llvm-cpu", "measure": json.dumps(QUICK)}


def value(name, *shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def tensor(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def saved(path, nodes, inputs, outputs, weights=(), opset=17, **how):
    graph = helper.make_graph(nodes, "Model from a tool.", inputs, outputs, list(weights))
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(proto)
    onnx.save(proto, path, **how)


def classifier(path, **how):
    """An embedding, a product, and a branch whose weights are in it."""
    draw = np.random.default_rng(1)
    table, first, other = (draw.standard_normal(shape).astype(np.float32) for shape in ((50, 16), (16, 16), (16, 16)))  # fmt: skip
    branches = []
    for name, weight in (("then", first), ("else", other)):
        inner = [helper.make_node("MatMul", ["e", f"w_{name}"], [f"y_{name}"])]
        branches.append(helper.make_graph(inner, name, [], [value(f"y_{name}", "n", 4, 16)], [tensor(f"w_{name}", weight)]))  # fmt: skip
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["e"]),
        helper.make_node("If", ["flag"], ["z"], then_branch=branches[0], else_branch=branches[1]),
        helper.make_node("Relu", ["z"], ["y"]),
    ]
    inputs = [value("ids", "n", 4, kind=TensorProto.INT64), value("flag", kind=TensorProto.BOOL)]
    saved(path, nodes, inputs, [value("y", "n", 4, 16)], [tensor("table", table)], **how)
