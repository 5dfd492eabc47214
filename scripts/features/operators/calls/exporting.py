"""Turn an operator problem into a model, so that all exporters can lower it."""

from __future__ import annotations

import torch

from scripts.core.tensors import TensorType
from scripts.features.operators.calls.calling import Call
from scripts.torch_model import convert, loading


def as_model(call: Call) -> loading.LoadedModel:
    """Return a model whose forward pass is the call; its example inputs are contiguous zeros."""
    inputs = tuple(torch.zeros(spec.shape, dtype=spec.dtype) for spec in call.inputs)
    return loading.LoadedModel(call.problem.name, call.module().eval(), inputs, {}, file=None)


def input_types(call: Call) -> tuple[TensorType, ...]:
    """Return the types of the program's arguments, in order."""
    model = as_model(call)
    return tuple(convert.tensor_type(path, tensor) for path, tensor in model.inputs)
