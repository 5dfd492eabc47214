"""Converts torch tensors to the stored forms: types, numpy arrays, bytes."""

from __future__ import annotations

import numpy as np
import torch

from scripts.core import tensors
from scripts.torch_model.errors import ModelError

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
