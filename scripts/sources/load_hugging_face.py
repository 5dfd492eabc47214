"""Loads a folder of Hugging Face as a model: by a Python file that takes the folder as an option."""

from __future__ import annotations

from scripts.sources import hugging_face
from scripts.torch_model import footprint
from scripts.torch_model.arguments import ModelChoice
from scripts.torch_model.loading import LoadedModel, ModelFile, loaded_from


def load(choice: ModelChoice, stage: str, memory_factor: float) -> LoadedModel:
    """The model of a folder, with inputs of its configuration. Raises ModelError as a model file does, and BrokenModelFile
    for files that are damaged."""
    folder = choice.model_file.expanduser().parent
    files = hugging_face.weight_files(folder)
    for file in files:
        hugging_face.check_safetensors(file)
    size = sum(file.stat().st_size for file in files)
    footprint.require(footprint.Weights(size // 4, size, size, "as saved"), stage, memory_factor)
    options = {**choice.options, "folder": str(folder)}
    return loaded_from(ModelFile(hugging_face.MODEL, options, choice.load_threads), choice.name)
