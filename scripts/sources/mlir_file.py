"""A program of MLIR: StableHLO (also its portable artifact), linalg or torch-mlir's Torch dialect, as text or bytecode.

The driver does not parse it, because it has no compiler: a file that cannot be parsed ends in the reference of its model.
"""

from __future__ import annotations

import mmap
import os
import re
from pathlib import Path
from typing import BinaryIO

from scripts.sources.source import DIMS, Facts, Options, Source, file_digest, given_dims, require
from scripts.torch_model.errors import BrokenModelFile, ModelFileError

OPTIONS = ("batch_size", DIMS, "function", "golden", "inputs", "parameters", "seed", "trust")
"""Options of an entry. `dims`: sizes of dimensions that the program leaves open (`?`). `function`: the one to call, if the program
has several. `inputs`, `golden`: .npz files with the inputs and with the results, in their order. `parameters`: files with its
parameters (.irpa, .safetensors or .gguf), a path or a list. `trust`: whether it may have operations that run code of the file."""
COMPILES = "golden results: iree-compile at O0"
CALLS = "golden results: a call of the program that IREE compiled at O0"
"""What the reference of a program prints before it does each, where XLA does not take the program."""
SUFFIXES = (".mlir", ".mlirbc", ".stablehlo")
_BYTECODE = b"ML\xefR"
_PLACE = re.compile(r"arg(?P<input>[0-9]{1,9})\.(?P<axis>[0-9]{1,9})")


def check(path: Path, options: Options) -> None:
    """Raise BrokenModelFile for a file that is no MLIR by its first bytes, ModelFileError for a wrong option."""
    require(path, options, OPTIONS, "a program of MLIR")
    for name in given_dims(path, options):
        places(path, name)
    for given in given_files(options):
        if not os.path.isfile(given):
            raise ModelFileError(f"{path}: no file {given}")
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


def places(path: Path, name: str) -> list[tuple[int, int]]:
    """The (input, axis) that a name of `dims` represents: `arg0.1`, or several that have the same size, `arg0.1=arg2.0`. Raises
    ModelFileError for another name."""
    matches = [_PLACE.fullmatch(part.strip()) for part in str(name).split("=")]
    if None in matches:
        raise ModelFileError(f"{path}: dims: found the name {name!r}, expected an argument and an axis, such as arg0.1, or several of one size, such as arg0.1=arg2.0")  # fmt: skip
    return [(int(match["input"]), int(match["axis"])) for match in matches if match]


def parameter_files(options: Options) -> list[Path]:
    """The files with the parameters of the program."""
    given = options.get("parameters") or []
    return [Path(str(file)) for file in (given if isinstance(given, list) else [given])]  # fmt: skip


def given_files(options: Options) -> list[Path]:
    """All files that the entry names."""
    named = (options[name] for name in ("inputs", "golden") if options.get(name))
    return [*(Path(str(file)) for file in named), *parameter_files(options)]


SOURCE = Source(
    name="mlir",
    kind="mlir",
    expected=f"a program of MLIR ({', '.join(SUFFIXES)})",
    takes=lambda path: path.suffix in SUFFIXES,
    check=check,
    facts=lambda _, options: Facts(int(options.get("batch_size", 1))),
    parts=lambda _, options: given_files(options),
    digest=file_digest,
    path_options=("inputs", "golden", "parameters"),
    # The driver cannot parse it: the reference of the model says whether it has the dimensions that an entry names.
    open_dims=lambda _: None,
)
