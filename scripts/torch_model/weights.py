"""A model's weights by name, and filling a model with the archive's weights and the reference's inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import iree.runtime  # noqa: F401  (tensors.read_archive needs it; its import is not the loading of weights)
import numpy as np
import torch
from torch.utils import _pytree as pytree

from scripts.core import exits, tensors
from scripts.torch_model.loading import LoadedModel


def named_weights(module: torch.nn.Module) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Every parameter and buffer by name, each storage once, and the aliases of tied ones.

    Buffers that are not in the state_dict (non-persistent) are weights of a program too.
    """
    first: dict[tuple, str] = {}
    weights: dict[str, torch.Tensor] = {}
    aliases: dict[str, str] = {}
    both = [
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ]
    for name, tensor in both:
        same = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if tensor.numel() and same in first:
            aliases[name] = first[same]
        else:
            first[same] = name
            weights[name] = tensor
    return weights, aliases


def set_weights(module: torch.nn.Module, path: Path) -> None:
    """Fill every weight from the archive, so that all runtimes use the same weights."""
    weights, _ = named_weights(module)
    stored = tensors.read_archive(path)
    if missing := sorted(weights.keys() ^ stored.keys()):
        exits.fail(f"{path} and the model differ in {missing[0]} (of {len(missing)}): run reference again")  # fmt: skip
    with torch.no_grad():
        for key, weight in weights.items():
            data = torch.from_numpy(stored[key].copy()).view(weight.dtype).reshape(weight.shape)
            weight.copy_(data)


def with_inputs(loaded: LoadedModel, path: Path) -> LoadedModel:
    """The same model with every tensor input from the reference's file, as a new tensor.

    The input is not copied in place, because it may be an expanded view, whose memory overlaps.
    """
    stored = tensors.load_npz(path)
    return with_arrays(loaded, [stored[str(i)] for i in range(len(stored))])


def with_arrays(
    loaded: LoadedModel, arrays: Sequence[np.ndarray], device: torch.device | None = None
) -> LoadedModel:
    """The same model with these values for its tensor inputs, in their order and dtypes."""
    values = iter(arrays)
    args, kwargs = pytree.tree_map_only(
        torch.Tensor,
        lambda old: torch.from_numpy(np.array(next(values))).to(device or old.device, old.dtype),
        (loaded.args, loaded.kwargs),
    )
    return dataclasses.replace(loaded, args=args, kwargs=kwargs)
