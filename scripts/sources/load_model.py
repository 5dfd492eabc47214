"""Loads a model from whatever its file is: the one way for all stages."""

from __future__ import annotations

from scripts.sources.registry import source_of
from scripts.torch_model import loading
from scripts.torch_model.arguments import ModelChoice
from scripts.torch_model.loading import LoadedModel


def load_model(choice: ModelChoice, stage: str = "", memory_factor: float = 1.0) -> LoadedModel:
    """The model of an entry and its inputs, seeded.

    Exits as `oom` before it builds weights that `stage` cannot hold, which takes `memory_factor` times their bytes.
    Raises ModelError or ModelFileError for a model that cannot be used. The module of each source is imported only for its
    files: not every environment has what it needs.
    """
    name = source_of(choice.model_file).name
    if name == "exported-program":
        from scripts.sources import load_exported_program

        return load_exported_program.load(choice, stage, memory_factor)
    if name == "hugging-face":
        from scripts.sources import load_hugging_face

        return load_hugging_face.load(choice, stage, memory_factor)
    if name == "onnx":
        from scripts.sources import load_onnx

        return load_onnx.load(choice, stage, memory_factor)
    if name == "mlir":
        from scripts.sources import load_mlir

        return load_mlir.load(choice, stage, memory_factor)
    return loading.load(choice, stage, memory_factor)
