"""Loads a folder of Hugging Face as a model: by a Python file that takes the folder as an option."""

from __future__ import annotations

from scripts.sources import hugging_face
from scripts.torch_model import footprint
from scripts.torch_model.arguments import ModelChoice
from scripts.torch_model.errors import Fault, ModelError
from scripts.torch_model.loading import LoadedModel, ModelFile, loaded_from


def load(choice: ModelChoice, stage: str, memory_factor: float) -> LoadedModel:
    """The model of a folder, with inputs of its configuration. Raises ModelError as a model file does, and BrokenModelFile
    for files that are damaged."""
    path = choice.model_file.expanduser()
    hugging_face.check(path, choice.options)
    count = sum(map(hugging_face.elements, hugging_face.weight_files(path.parent)))
    footprint.require(footprint.Weights(count, 4 * count, 4 * count, "f32"), stage, memory_factor)
    options = {**choice.options, "folder": str(path.parent)}
    try:
        return loaded_from(ModelFile(hugging_face.MODEL, options, choice.load_threads), choice.name)
    except ModelError as error:
        if (cause := error.__cause__) is None:
            raise
        kind = "" if isinstance(cause, ValueError) else f"{type(cause).__name__}: "
        raise ModelError(f"{path.parent}: {kind}{cause}", Fault.FILE) from error
