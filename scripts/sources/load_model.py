"""Loads a model from whatever its file is: the one way for all stages."""

from __future__ import annotations

from collections.abc import Callable

from scripts.sources import load_exported_program, load_hugging_face
from scripts.sources.registry import source_of
from scripts.torch_model import loading
from scripts.torch_model.arguments import ModelChoice
from scripts.torch_model.loading import LoadedModel

_LOADERS: dict[str, Callable[[ModelChoice, str, float], LoadedModel]] = {
    "exported-program": load_exported_program.load,
    "hugging-face": load_hugging_face.load,
    "python": loading.load,
}
"""By the name of the source."""


def load_model(choice: ModelChoice, stage: str = "", memory_factor: float = 1.0) -> LoadedModel:
    """The model of an entry and its inputs, seeded.

    Exits as `oom` before it builds weights that `stage` cannot hold, which takes `memory_factor` times their bytes.
    Raises ModelError or ModelFileError for a model that cannot be used.
    """
    return _LOADERS[source_of(choice.model_file).name](choice, stage, memory_factor)
