"""A model as a function of flat tensors, which every capture tool takes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from scripts.torch_model import convert
from scripts.torch_model.loading import LoadedModel

PREFIX = "model."
"""What `FlatModel` puts before every name of the model's own."""


def input_names(count: int) -> list[str]:
    """The parameters of a FlatModel's forward() for this many tensors."""
    return [f"inputs_{position}" for position in range(count)]


class FlatModel(torch.nn.Module):
    """Takes the tensor inputs one by one and calls the model as `loaded` would."""

    def __init__(self, loaded: LoadedModel) -> None:
        super().__init__()
        self.model = loaded.module
        leaves, self.spec = pytree.tree_flatten((loaded.args, loaded.kwargs))
        self.constants = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]

    @property
    def forward(self) -> Callable[..., Any]:
        """`flat_results` with a parameter for each tensor: torch.export names sizes by parameters, and the checks of them that it
        writes into a graph are wrong for `*inputs` (PyTorch 2.9: name 'L' is not defined)."""
        function = functools.partial(self.flat_results)
        names = input_names(self.constants.count(None))
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        function.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names])  # type: ignore[attr-defined]
        return function

    def flat_results(self, *inputs: torch.Tensor):
        """The model's own outputs; `inputs` as in `LoadedModel.inputs`."""
        # Numbers and None among the outputs are not results of a program.
        return [t for _, t in convert.flat_tensors(self.called(inputs))]

    def called(self, inputs: Sequence[torch.Tensor]) -> Any:
        """What the model returns for these inputs."""
        tensors = iter(inputs)
        leaves = [next(tensors) if constant is None else constant[0] for constant in self.constants]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.model(*args, **kwargs)
