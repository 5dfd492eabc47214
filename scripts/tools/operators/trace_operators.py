"""Record the operators, with arguments, that a model calls in one eval step and one train step.

As in PyTorch's traces, calls without a tensor in their arguments or results are left out. So are
operators that compute nothing: views, and operators that only allocate memory.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from scripts.core import commands, requests
from scripts.core.requests import Folders
from scripts.frontends.sources.load_model import load_model
from scripts.frontends.torch_model import errors, loading
from scripts.frontends.torch_model.arguments import ModelChoice
from scripts.frontends.torch_model.step import EvalStep, TrainStep, make_cotangents, to_training
from scripts.tools.operators.problems import argument_values, sources


@dataclass(frozen=True, kw_only=True)
class TraceRequest:
    model: ModelChoice


def trace_operators(request: TraceRequest, folders: Folders) -> None:
    """Write the trace of a model. Exits if the model has an error."""
    commands.report_working()
    with errors.reported():
        _trace(request.model, folders.results / f"{request.model.name}.txt")


def _trace(model: ModelChoice, out_trace: Path) -> None:
    """Write the trace of a model. Raises ModelError or ModelFileError if the model has an error.

    If a model cannot be trained, its trace has only the operators of its eval step.
    """
    loaded = load_model(model, "trace")
    trace = Trace()
    try:
        with trace:
            EvalStep(loaded)()
    except Exception as error:
        raise errors.ModelError(
            f"{model.model_file}: its forward pass raised {errors.raised(error, model.model_file)}",
            errors.Fault.FORWARD,
        ) from error
    try:
        _train(loaded, trace, model.seed)
    except Exception as error:
        print(f"note: no training step: {errors.raised(error, model.model_file)}", flush=True)
    sources.write_trace(out_trace, trace.counts)


def _train(loaded: loading.LoadedModel, trace: Trace, seed: int) -> None:
    """Record a training step without its optimizer, as the gradients stage runs it."""
    trained = to_training(loaded)
    with torch.no_grad():
        outputs = trained.module(*trained.args, **trained.kwargs)
    cotangents = [torch.from_numpy(array) for array in make_cotangents(outputs, seed)]
    del outputs
    step = TrainStep(trained, cotangents)
    before = trace.counts.copy()
    try:
        with trace:
            step()
    except Exception:
        trace.counts = before  # do not keep an incomplete step
        raise


_PLAIN = (torch.Tensor, torch.nn.Parameter)


class _NotWritten(Exception):
    """The format does not support an argument."""


class Trace(TorchDispatchMode):
    """Records the calls of operators below autograd; `counts` is by (operator, arguments)."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[tuple[str, str]] = Counter()

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if any(kind not in _PLAIN for kind in types):
            return NotImplemented  # a tensor subclass: it calls operators on plain tensors
        text = _written(operator, args, kwargs)
        returned = operator(*args, **kwargs)
        if text and _has_tensor(returned):
            self.counts[str(operator), text] += 1
        return returned


def _written(operator: torch._ops.OpOverload, args: tuple, kwargs: dict) -> str:
    """Return the arguments of a call as text, before it changes them; "" if it is not recorded."""
    if not _has_tensor((args, kwargs)) or not computes(operator):
        return ""
    try:
        return argument_values.show(argument_values.replaced((args, kwargs), _value))
    except _NotWritten:
        return ""


def computes(operator: torch._ops.OpOverload) -> bool:
    """Return whether an operator computes values: it is not a view and does more than allocate."""
    schema = operator._schema
    if schema.is_mutable:
        return True
    if "_like" in schema.name or "new_empty" in schema.name:
        return False
    if len(schema.returns) != 1:
        return True
    alias = schema.returns[0].alias_info
    return alias is None or not alias.before_set


def _has_tensor(tree: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_iter(tree))


def _value(leaf: Any) -> Any:
    match leaf:
        case torch.Tensor() if leaf.layout is torch.strided:
            stride = None if leaf.is_contiguous() else tuple(leaf.stride())
            return argument_values.Tensor(tuple(leaf.shape), _short(leaf.dtype), stride)
        case torch.Tensor() if leaf.is_sparse:
            return argument_values.SparseTensor(
                tuple(leaf.shape), _short(leaf.dtype), str(leaf.layout), leaf.is_coalesced(), leaf._nnz()
            )  # fmt: skip
        case torch.dtype():
            return argument_values.Name(_short(leaf))
        case torch.device():
            return leaf.type
        case torch.layout() | torch.memory_format():
            return argument_values.Name(str(leaf))
        case None | bool() | int() | float() | str():
            return leaf
    raise _NotWritten(type(leaf).__name__)


def _short(dtype: torch.dtype) -> str:
    name = str(dtype).removeprefix("torch.")
    if name not in argument_values.ABBREVIATIONS:
        raise _NotWritten(name)
    return argument_values.ABBREVIATIONS[name]


if __name__ == "__main__":
    requests.run(TraceRequest, trace_operators)
