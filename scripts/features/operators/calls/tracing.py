"""Record the operators that a model calls while it runs, for trace files.

As in PyTorch's traces, calls without a tensor in their arguments or results are left out. So are
operators that compute nothing: views, and operators that only allocate memory.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from scripts.features.operators.problems import argument_values

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
