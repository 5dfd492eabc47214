"""Loads a model from whatever its file is: the one way for all stages."""

from __future__ import annotations

from scripts.sources.registry import source_of
from scripts.torch_model.arguments import ModelChoice
from scripts.torch_model.loading import LoadedModel


def load_model(choice: ModelChoice, stage: str = "", memory_factor: float = 1.0) -> LoadedModel:
    """The model of an entry and its inputs, seeded.

    Exits as `oom` before it builds weights that `stage` cannot hold, which takes `memory_factor` times their bytes.
    Raises ModelError or ModelFileError for a model that cannot be used. The module of each source is imported only for its
    files: not every environment has what it needs.
    """
    match source_of(choice.model_file).name:
        case "exported-program":
            from scripts.sources.load_exported_program import load
        case "hugging-face":
            from scripts.sources.load_hugging_face import load
        case "onnx":
            from scripts.sources.load_onnx import load
        case "mlir":
            from scripts.sources.load_mlir import load
        case _:
            from scripts.torch_model.loading import load
    return load(choice, stage, memory_factor)
