"""Give a model the archive's weights and the reference's inputs, so that all compute the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import iree.runtime  # noqa: F401  (archive.read needs it; its import is not the loading of weights)
import numpy as np
import torch
from torch.utils import _pytree as pytree

from scripts.lib import archive, exits, model, tensors


def set_weights(module: torch.nn.Module, path: Path) -> None:
    """Fill every weight from the archive, so that no runtime computes with others."""
    weights, _ = model.named_weights(module)
    stored = archive.read(path)
    if missing := sorted(weights.keys() ^ stored.keys()):
        exits.fail(f"{path} and the model differ in {missing[0]} (of {len(missing)}): run reference again")  # fmt: skip
    with torch.no_grad():
        for key, weight in weights.items():
            data = torch.from_numpy(stored[key].copy()).view(weight.dtype).reshape(weight.shape)
            weight.copy_(data)


def with_inputs(loaded: model.LoadedModel, path: Path) -> model.LoadedModel:
    """The same model with every tensor input from the reference's file, as a tensor of its own.

    Not copied in place: an input may be an expanded view, whose memory overlaps.
    """
    stored = tensors.load_npz(path)
    return with_arrays(loaded, [stored[str(i)] for i in range(len(stored))])


def with_arrays(
    loaded: model.LoadedModel,
    arrays: Sequence[np.ndarray],
    device: torch.device | None = None,
) -> model.LoadedModel:
    """The same model with these values for its tensor inputs, in their order and dtypes."""
    values = iter(arrays)
    args, kwargs = pytree.tree_map_only(
        torch.Tensor,
        lambda old: torch.from_numpy(np.array(next(values))).to(device or old.device, old.dtype),
        (loaded.args, loaded.kwargs),
    )
    return dataclasses.replace(loaded, args=args, kwargs=kwargs)
