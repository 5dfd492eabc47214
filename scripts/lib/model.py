"""Load a model file as the reference, export and baseline stages all do: one way.

Seeded before the weights, seeded again before the inputs, so that what a stage rebuilds is
what the reference stage stored. Imports torch.
"""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from scripts.lib import modelfile, tensors

TORCH_DTYPE = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


class ModelError(Exception):
    """A model file that does not do what is expected of it; says which part and what was found."""


@dataclass
class LoadedModel:
    """A model in eval mode, its call arguments, and the flat tensors among those."""

    name: str
    module: torch.nn.Module
    args: tuple
    kwargs: dict[str, Any]

    @property
    def inputs(self) -> list[tuple[str, torch.Tensor]]:
        """(path, tensor) of every tensor input, in the order of the program's arguments."""
        return flat_tensors((self.args, self.kwargs))


def load(name: str, path: str | Path, options: Mapping[str, Any]) -> LoadedModel:
    """Build the model of file `path` and its inputs under `options`.

    Raises ModelError where a function raises or returns something else than is expected.
    """
    options = dict(options)
    seed = int(options.pop("seed", 0))
    dtype = TORCH_DTYPE[options.pop("dtype", "f32")]
    accepted = modelfile.accepted_options(path)
    module = _import(path)

    def call(function: str) -> Any:
        chosen = {k: v for k, v in options.items() if k in accepted[function]}
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        try:
            return getattr(module, function)(**chosen)
        except Exception as error:
            shown = ", ".join(f"{k}={v!r}" for k, v in chosen.items())
            hint = ""
            if chosen.get("pretrained") and isinstance(error, OSError):
                hint = "pretrained weights could not be fetched; give this machine a way to the hub, or set pretrained: false: "
            raise ModelError(f"{path}: {function}({shown}): {hint}{type(error).__name__}: {error}") from error  # fmt: skip

    built = call("get_model")
    if not isinstance(built, torch.nn.Module):
        raise ModelError(
            f"{path}: get_model() returned {type(built).__name__}, expected a torch.nn.Module"
        )
    args, kwargs = _arguments(path, call("get_dummy_input"))
    built = built.eval().requires_grad_(False)
    if dtype is not torch.float32:
        built = built.to(dtype)
        args, kwargs = cast_floats((args, kwargs), dtype)
    return LoadedModel(name, built, args, kwargs)


def cast_floats(tree: Any, dtype: torch.dtype) -> Any:
    """The same tree with its floating-point tensors in `dtype`."""
    return pytree.tree_map_only(
        torch.Tensor, lambda t: t.to(dtype) if t.is_floating_point() else t, tree
    )


def flat_tensors(tree: Any) -> list[tuple[str, torch.Tensor]]:
    """(path, tensor) for the tensors of a nested structure, in pytree order.

    None and plain numbers are left out: torch.export treats them as constants.
    """
    leaves, _ = pytree.tree_flatten_with_path(tree)
    return [(pytree.keystr(path), leaf) for path, leaf in leaves if isinstance(leaf, torch.Tensor)]


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


def tensor_type(name: str, tensor: torch.Tensor) -> tensors.TensorType:
    """The type of a tensor; raises ModelError for a dtype that no stage can carry."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in tensors.DTYPES:
        raise ModelError(
            f"{name}: dtype {dtype} cannot be carried; expected one of {', '.join(tensors.DTYPES)}"
        )
    return tensors.TensorType(name, tuple(tensor.shape), dtype)


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A contiguous copy as a numpy array; bfloat16 widened to float32, exactly."""
    tensor = tensor.detach().cpu()
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.float()
    return np.array(tensor.numpy(), order="C")


def to_bytes(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's bytes in row-major order, as uint8, without a copy where it can be had."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy()


def _arguments(path: str | Path, given: Any) -> tuple[tuple, dict[str, Any]]:
    """What get_dummy_input() returned, as (args, kwargs)."""
    if isinstance(given, torch.Tensor):
        return (given,), {}
    if isinstance(given, dict):
        return (), given
    if isinstance(given, tuple | list):
        if len(given) == 2 and isinstance(given[0], tuple | list) and isinstance(given[1], dict):
            return tuple(given[0]), given[1]
        return tuple(given), {}
    raise ModelError(
        f"{path}: get_dummy_input() returned {type(given).__name__}, expected a tensor, a tuple "
        "of tensors, a dict of keyword inputs, or (args, kwargs)"
    )


def _import(path: str | Path):
    path = Path(path).resolve()
    spec = importlib.util.spec_from_file_location(f"vmfbench_model_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    # Registered, as dataclasses and torch.export look modules up by name.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ModelError(f"{path}: importing it raised {type(error).__name__}: {error}") from error
    return module
