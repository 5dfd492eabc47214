"""Loads a model from whatever its file is: the one way for all stages."""

from __future__ import annotations

import traceback

from scripts.sources import hugging_face, python_file
from scripts.sources.registry import source_of
from scripts.sources.source import unreadable
from scripts.supervise.diagnose import diagnose
from scripts.torch_model import footprint, loading
from scripts.torch_model.arguments import ModelChoice
from scripts.torch_model.errors import Fault, ModelError, ModelFileError, first_line
from scripts.torch_model.loading import LoadedModel, ModelFile, loaded_from


def load_model(choice: ModelChoice, stage: str = "", memory_factor: float = 1.0) -> LoadedModel:
    """The model of an entry and its inputs, seeded.

    Exits as `oom` before it builds weights that `stage` cannot hold, which takes `memory_factor` times their bytes.
    Raises ModelError or ModelFileError for a model that cannot be used.
    """
    source = source_of(choice.model_file)
    if source is python_file.SOURCE:
        return loading.load(choice, stage, memory_factor)
    try:
        return _of_foreign_file(source.name, choice, stage, memory_factor)
    except (ModelError, ModelFileError, ImportError):
        raise
    except Exception as error:
        kind = type(error).__name__
        # Full disks, too little memory and unsupported operators have reasons of their own.
        if diagnose(1, f"{kind}: {first_line(error)}").reason not in (kind, "exit-1", "stage-error"):  # fmt: skip
            raise
        traceback.print_exc()
        raise unreadable(choice.model_file, error) from error


def _of_foreign_file(name: str, choice: ModelChoice, stage: str, memory_factor: float) -> LoadedModel:  # fmt: skip
    """The model of a file that is no Python file. The module of each source is imported only for its files: not every
    environment has what it needs."""
    if name == "exported-program":
        from scripts.sources import load_exported_program

        return load_exported_program.load(choice, stage, memory_factor)
    if name == "hugging-face":
        return _load_folder(choice, stage, memory_factor)
    if name == "onnx":
        from scripts.sources import load_onnx

        return load_onnx.load(choice, stage, memory_factor)
    from scripts.sources import load_mlir

    return load_mlir.load(choice, stage, memory_factor)


def _load_folder(choice: ModelChoice, stage: str, memory_factor: float) -> LoadedModel:
    """The model of a folder of Hugging Face, with inputs of its configuration, by a Python file that takes the folder as an
    option. Raises ModelError as a model file does, and BrokenModelFile for files that are damaged."""
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
