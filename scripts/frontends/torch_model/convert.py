"""Converts torch tensors to the stored forms (types, numpy arrays, bytes), and finds them in nested structures (pytrees), such as the
inputs and outputs of models."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from scripts.core import tensors
from scripts.frontends.torch_model.errors import ModelError

TORCH_DTYPE = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def tensor_type(name: str, tensor: torch.Tensor) -> tensors.TensorType:
    """The type of a tensor. Raises ModelError for an unsupported dtype."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in tensors.DTYPES:
        raise ModelError(
            f"{name} has dtype {dtype}, which cannot be carried; expected one of "
            f"{', '.join(tensors.DTYPES)}"
        )
    return tensors.TensorType(name, tuple(tensor.shape), dtype)


def zeros(kind: tensors.TensorType) -> torch.Tensor:
    """A tensor of this type: a capture needs no values."""
    return torch.zeros(kind.shape, dtype=getattr(torch, kind.dtype))


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A contiguous copy as a numpy array. bfloat16 becomes float32, which is exact."""
    tensor = tensor.detach().cpu()
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.float()
    return np.array(tensor.numpy(), order="C")


def to_bytes(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's bytes in row-major order, as uint8, without a copy if possible."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy()


def cast_floats(tree: Any, dtype: torch.dtype) -> Any:
    """The same tree with its floating-point tensors in `dtype`."""
    return pytree.tree_map_only(
        torch.Tensor, lambda t: t.to(dtype) if t.is_floating_point() else t, tree
    )


def flat_tensors(tree: Any) -> list[tuple[str, torch.Tensor]]:
    """(path, tensor) for the tensors of a nested structure, in pytree order.

    None, numbers and strings are left out, because torch.export treats them as constants. A dataclass
    that torch does not know as a structure is registered.
    """
    return [(path, leaf) for path, leaf in leaves(tree) if isinstance(leaf, torch.Tensor)]


def leaves(tree: Any) -> list[tuple[str, Any]]:
    """(path, leaf) of a nested structure, in pytree order; registers dataclasses on the way."""
    paths, _ = pytree.tree_flatten_with_path(tree)
    is_data = dataclasses.is_dataclass
    unknown = {type(x) for _, x in paths if is_data(x) and not isinstance(x, type | torch.Tensor)}
    for kind in unknown:
        torch.export.register_dataclass(kind)
    if unknown:
        return leaves(tree)
    return [(pytree.keystr(path), leaf) for path, leaf in paths]


def opaque(tree: Any) -> list[str]:
    """Paths and classes of the leaves that contain tensors which stages cannot access."""
    return [
        f"{path or 'its result'} of class {type(leaf).__name__}"
        for path, leaf in leaves(tree)
        if not isinstance(leaf, torch.Tensor)
        and any(isinstance(value, torch.Tensor) for value in getattr(leaf, "__dict__", {}).values())
    ]
