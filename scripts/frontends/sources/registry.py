"""All sources, and the source of a file. Here are the declarations of Python, ONNX and MLIR files."""

from __future__ import annotations

import mmap
import os
import re
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

from scripts.core.dimensions import Sizes
from scripts.frontends.sources import exported_program, hugging_face
from scripts.frontends.sources.source import (
    DIMS,
    Facts,
    Options,
    Source,
    file_digest,
    given_dims,
    option_file,
    require,
)
from scripts.frontends.torch_model import source as python_file
from scripts.frontends.torch_model.errors import BrokenModelFile, ModelFileError


def _facts_of_python(path: Path, options: Options) -> Facts:
    given = options.get("batch_size")
    size = python_file.default_batch_size(path) if given is None else int(given)
    return Facts(size, options.get("dtype", "f32"))


PYTHON = Source(
    name="python",
    kind="module",
    expected="a Python file (.py) with get_model() and get_dummy_input()",
    takes=lambda path: path.suffix == ".py",
    check=python_file.check_options,
    facts=_facts_of_python,
    parts=lambda path, _: python_file.own_imports(path),
    digest=python_file.code_digest,
    sizes_are_options=True,
    is_code=True,
)


def _onnx() -> ModuleType:
    """Imported only if there is an ONNX file: most environments lack the package onnx."""
    from scripts.frontends.sources import onnx_graph

    return onnx_graph


ONNX = Source(
    name="onnx",
    kind="onnx",
    expected="an ONNX file (.onnx)",
    takes=lambda path: path.suffix == ".onnx",
    check=lambda path, options: _onnx().check(path, options),
    facts=lambda path, options: _onnx().facts(path, options),
    parts=lambda path, options: _onnx().parts(path, options),
    digest=lambda path: _onnx().digest(path),
    path_options=("inputs",),
    dynamic_dims=lambda path: dict.fromkeys(_onnx().dynamic_dims(_onnx().read(path)), Sizes(())),
)

MLIR_OPTIONS = ("batch_size", DIMS, "function", "golden", "inputs", "parameters", "seed", "trust")
"""Options of an entry of a program of MLIR. `dims`: sizes of dimensions that the program leaves open (`?`). `function`: the one to call, if the program
has several. `inputs`, `golden`: .npz files with the inputs and with the results, in their order. `parameters`: files with its
parameters (.irpa, .safetensors or .gguf), a path or a list. `trust`: whether it may have operations that run code of the file."""
COMPILES = "golden results: iree-compile at O0"
CALLS = "golden results: a call of the program that IREE compiled at O0"
"""What the reference of a program prints before it does each, where XLA does not take the program."""
MLIR_SUFFIXES = (".mlir", ".mlirbc", ".stablehlo")
_BYTECODE = b"ML\xefR"
_PLACE = re.compile(r"arg(?P<input>[0-9]{1,9})\.(?P<axis>[0-9]{1,9})")


def _check_mlir(path: Path, options: Options) -> None:
    """Raise BrokenModelFile for a file that is no MLIR by its first bytes, ModelFileError for a wrong option. The driver has no compiler: a
    file that cannot be parsed ends in the reference of its model."""
    require(path, options, MLIR_OPTIONS, "a program of MLIR", files=("inputs", "golden"))
    for parameters in parameter_files(options):
        if not os.path.isfile(parameters):
            raise ModelFileError(f"{path}: parameters: no file {parameters}")
    for name in given_dims(path, options):
        places_of_dim(path, name)
    try:
        with path.open("rb") as file:
            start = file.read(1 << 20)
            if start.startswith(_BYTECODE):
                return
            has_function = bool(start) and _finds(file, b"func")
    except OSError as error:
        raise BrokenModelFile(f"{path}: cannot be read ({error.strerror}); expected MLIR") from error  # fmt: skip
    try:
        start.decode()
    except UnicodeDecodeError as error:
        if error.end < len(start) - 4:  # not a character that the limit has cut
            raise BrokenModelFile(f"{path}: neither text nor bytecode of MLIR (a byte that is no UTF-8 at {error.start})") from error  # fmt: skip
    if not has_function:
        raise BrokenModelFile(f"{path}: {path.stat().st_size} bytes of text without a function, expected MLIR")  # fmt: skip


def _finds(file: BinaryIO, text: bytes) -> bool:
    """Whether a text is anywhere in a file that is not empty: literals may take many megabytes before the first function."""
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(text) >= 0


def places_of_dim(path: Path, name: str) -> list[tuple[int, int]]:
    """The (input, axis) that a name of `dims` represents: `arg0.1`, or several that have the same size, `arg0.1=arg2.0`. Raises
    ModelFileError for another name."""
    matches = [_PLACE.fullmatch(part.strip()) for part in str(name).split("=")]
    if None in matches:
        raise ModelFileError(f"{path}: dims: found the name {name!r}, expected an argument and an axis, such as arg0.1, or several of one size, such as arg0.1=arg2.0")  # fmt: skip
    return [(int(match["input"]), int(match["axis"])) for match in matches if match]


def parameter_files(options: Options) -> list[Path]:
    """The files with the parameters of a program of MLIR."""
    given = options.get("parameters") or []
    return [Path(str(file)) for file in (given if isinstance(given, list) else [given])]


def _mlir_parts(_: Path, options: Options) -> list[Path]:
    files = (option_file(options, name) for name in ("inputs", "golden"))
    return [*filter(None, files), *parameter_files(options)]


MLIR = Source(
    name="mlir",
    kind="mlir",
    expected=f"a program of MLIR ({', '.join(MLIR_SUFFIXES)})",
    takes=lambda path: path.suffix in MLIR_SUFFIXES,
    check=_check_mlir,
    facts=lambda _, options: Facts(int(options.get("batch_size", 1))),
    parts=_mlir_parts,
    digest=file_digest,
    path_options=("inputs", "golden", "parameters"),
    # The driver cannot parse it: the reference of the model says whether it has the dimensions that an entry names.
    dynamic_dims=lambda _: None,
)


SOURCES: tuple[Source, ...] = (
    exported_program.SOURCE,
    hugging_face.SOURCE,
    ONNX,
    MLIR,
    PYTHON,
)
"""In the order in which they are tried."""


def source_of(path: str | Path) -> Source:
    """The source of a model's file, by its name; that of Python files for any other name."""
    file = Path(path).expanduser()
    return next((source for source in SOURCES if source.takes(file)), PYTHON)


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
