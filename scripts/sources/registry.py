"""All sources, and the source of a file."""

from __future__ import annotations

import os
from pathlib import Path

from scripts.sources import exported_program, hugging_face, mlir_file, onnx_file, python_file
from scripts.sources.source import Source

SOURCES: tuple[Source, ...] = (
    exported_program.SOURCE,
    hugging_face.SOURCE,
    onnx_file.SOURCE,
    mlir_file.SOURCE,
    python_file.SOURCE,
)
"""In the order in which they are tried."""


def source_of(path: str | Path) -> Source:
    """The source of a model's file, by its name; that of Python files for any other name."""
    file = Path(path).expanduser()
    return next((source for source in SOURCES if source.takes(file)), python_file.SOURCE)


def model_file(path: str | Path) -> Path:
    """The file that represents a model: a folder of Hugging Face has its config.json."""
    file = Path(path).expanduser()
    return file / hugging_face.CONFIG if os.path.isdir(file) else file


def model_name(path: str | Path) -> str:
    """The name of a model that has no entry: that of its file; that of the folder for a folder and for `model.onnx`."""
    file = model_file(path)
    of_folder = source_of(file) is hugging_face.SOURCE or file.name == "model.onnx"
    return file.parent.name if of_folder else file.stem


def name_with_kind(path: str | Path) -> str:
    """The name of a model whose file has the name of another model: `resnet-onnx`, and `resnet-folder` for a folder."""
    file = model_file(path)
    kind = "folder" if source_of(file) is hugging_face.SOURCE else file.suffix.removeprefix(".")
    return f"{model_name(path)}-{kind}"


def unknown(path: Path) -> str:
    """An error message for a file whose name no source takes; "" if one does."""
    if any(source.takes(path) for source in SOURCES):
        return ""
    return f"{path} is no model by its name; expected {expected()}"


def expected() -> str:
    """What a model may be made of, for error messages."""
    *others, last = (source.expected for source in SOURCES[::-1])
    return f"{', '.join(others)} or {last}"
