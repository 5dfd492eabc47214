"""Load a model file as the reference, export and baseline stages all do: one way.

Seeded before the weights, seeded again before the inputs, so that what a stage rebuilds is
what the reference stage stored. Imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from scripts.torch_model import counting, footprint
from scripts.torch_model.errors import Fault, ModelError, of
from scripts.torch_model.inputs import call_arguments, check_inputs
from scripts.torch_model.model_file import ModelFile
from scripts.torch_model.trees import cast_floats, flat_tensors

if TYPE_CHECKING:
    from scripts.torch_model.train_reference import Training


@dataclass
class LoadedModel:
    """A model in eval mode, its call arguments, and the flat tensors among those.

    `file`: where it is from, for what else that file can tell of it; None for a model of no file.
    `training`: the step to capture in place of the forward pass (torch_model/train_reference.py).
    """

    name: str
    module: torch.nn.Module
    args: tuple
    kwargs: dict[str, Any]
    file: ModelFile | None
    training: Training | None = None

    @property
    def inputs(self) -> list[tuple[str, torch.Tensor]]:
        """(path, tensor) of every tensor input, in the order of the program's arguments."""
        return flat_tensors((self.args, self.kwargs))

    @property
    def changing(self) -> frozenset[str]:
        """The keys of the weights that change from one call to the next: those of a training step."""
        return self.training.changing if self.training else frozenset()

    def float_model(self) -> torch.nn.Module | None:
        """What get_float_model() of the model's file returns, in eval mode and the entry's dtype;
        None where the file has no such function."""
        if self.file is None or "get_float_model" not in self.file.functions:
            return None
        return self.file.to_dtype(self.file.build("get_float_model"))

    def resolved_options(self) -> dict[str, Any]:
        """The arguments that the model file's functions were called with; {} without a file."""
        return self.file.resolved_options() if self.file else {}

    def input_description(self) -> str | None:
        """What describe_inputs() of the model's file returns; None where the file has none."""
        if self.file is None or "describe_inputs" not in self.file.functions:
            return None
        with torch.no_grad():
            text = self.file.call("describe_inputs", self.module)
        if not isinstance(text, str):
            raise ModelError(
                f"{self.file.path}: describe_inputs() returned {type(text).__name__}, expected a str",
                Fault.RETURN,
            )
        return text


def load(
    name: str,
    path: str | Path,
    options: Mapping[str, Any],
    stage: str = "",
    memory_factor: float = 1.0,
    threads: int | None = None,
) -> LoadedModel:
    """Build the model of file `path` and its inputs under `options`, with `threads` CPU threads
    (None: torch's own choice).

    Exits as `oom` before it builds weights that `stage` cannot hold, which takes `memory_factor`
    times their bytes (footprint.require).

    get_dummy_input() is given the model, where it takes it, in eval mode, without gradients and
    in the entry's dtype: inputs that the model computes (a cache) are those of that dtype. Raises
    ModelError where a function raises or returns something else than is expected.
    """
    file = ModelFile(path, options, threads)
    if not file.options.get("pretrained"):  # its loader wants values, and fetches them
        counted = counting.count(lambda: file.call("get_model"), file.options.get("dtype", "f32"))
        footprint.require(counted, stage, memory_factor)
    built = file.to_dtype(file.build("get_model"))
    return LoadedModel(name, built, *inputs_of(file, built), file)


def inputs_of(file: ModelFile, built: torch.nn.Module) -> tuple[tuple, dict[str, Any]]:
    """What get_dummy_input() of a file gives for the model that it built, as (args, kwargs); raises
    ModelError as `load` does."""
    with torch.no_grad():
        given = file.call("get_dummy_input", built)
    with of(Fault.INPUTS):
        args, kwargs = call_arguments(file.path, given)
        check_inputs(f"{file.path}: get_dummy_input() returned", (args, kwargs))
    # A tensor that requires a gradient is a leaf of the user's own graph: no stage wants that.
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, (args, kwargs))
    if file.dtype is not torch.float32:
        args, kwargs = cast_floats((args, kwargs), file.dtype)
    return args, kwargs
