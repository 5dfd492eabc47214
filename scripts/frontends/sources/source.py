"""The declaration of a source."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from scripts.core import tensors
from scripts.core.dimensions import Sizes
from scripts.core.tensors import TensorType
from scripts.frontends.torch_model.errors import (
    BrokenModelFile,
    Fault,
    ModelError,
    ModelFileError,
    cause,
    first_line,
)
from scripts.frontends.torch_model.source import refuse_options

if TYPE_CHECKING:
    import numpy as np

ModelKind = Literal["module", "onnx", "mlir"]
"""What a source gives: a module of PyTorch, an ONNX graph, or a program of MLIR. Exporters and runtimes declare which of these they take."""
MODEL_KINDS = get_args(ModelKind)

DIMS = "dims"
"""The option that sets dynamic dimensions that a file declares."""

TRUST = "set `trust: true` in the model's entry if you trust the file"
"""What to do about a file that is refused because it would run code."""

MOST_ELEMENTS = 2**28
"""Of an input, which is drawn before the first call: larger ones are refused."""

Options = Mapping[str, Any]
"""The options of a model's entry."""


@dataclass(frozen=True)
class Facts:
    """What a file says of its model where the entry does not: the batch size, and the dtype it computes in."""

    batch_size: int = 1
    dtype: str = "f32"


@dataclass(frozen=True)
class Source:
    """A kind of file that a model may be made of.

    `expected`: what such a file is, for error messages. `takes`: whether a path is one, by its name alone. `check` raises
    ModelFileError for an option that it does not have, and BrokenModelFile for a file that cannot be used. `facts`
    is called for a file that has passed `check`. `parts`: the further files that the model is made of; a change of one
    is a change of the model. `digest`: a hash of what the results depend on. `path_options`: its options that are paths of
    files. `sizes_are_options`: whether options set the sizes of its inputs. `dynamic_dims`: the dynamic dimensions that a file
    declares, by name, with the sizes that they may have (None: the driver cannot tell); the option `dims` sets those.
    `is_code`: whether its files are code, which is run.

    Whatever one of these functions raises for a file is a BrokenModelFile: a bad file must not stop the other models of a run.
    """

    name: str
    kind: ModelKind
    expected: str
    takes: Callable[[Path], bool]
    check: Callable[[Path, Options], None]
    facts: Callable[[Path, Options], Facts]
    parts: Callable[[Path, Options], list[Path]]
    digest: Callable[[Path], str]
    path_options: tuple[str, ...] = ()
    sizes_are_options: bool = False
    dynamic_dims: Callable[[Path], Mapping[str, Sizes] | None] | None = None
    is_code: bool = False

    def __post_init__(self) -> None:
        for name in ("check", "facts", "parts", "digest", "dynamic_dims"):
            if (read := getattr(self, name)) is not None:
                object.__setattr__(self, name, _with_own_errors(read))

    def sizes(self, options: Options) -> Mapping[str, Any]:
        """The sizes among the options of a model, by what an entry's `dynamic` calls them."""
        return options if self.dynamic_dims is None else options.get(DIMS) or {}

    def with_sizes(self, options: Options, sizes: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a model with these sizes."""
        if self.dynamic_dims is None:
            return {**options, **sizes}
        return {**options, DIMS: {**self.sizes(options), **sizes}}

    def check_dynamic(self, path: Path, options: Options, wanted: Mapping[str, Sizes]) -> None:
        """Raise ModelFileError unless a file can have these sizes."""
        declared = None
        if self.dynamic_dims is not None:
            for key, what in (("inputs", "inputs"), ("golden", "results")):
                if options.get(key):
                    raise ModelFileError(f"{path}: dynamic: {options[key]} has {what} of one size; leave `{key}` out")  # fmt: skip
            declared = self.dynamic_dims(path)
        elif not self.sizes_are_options:
            raise ModelFileError(f"{path}: dynamic: the inputs of {self.expected} have one size")
        if declared is None:
            self.check(path, self.with_sizes(options, {name: own.values[0] for name, own in wanted.items()}))  # fmt: skip
            return
        for name, sizes in wanted.items():
            if name not in declared:
                raise ModelFileError(f"{path}: dynamic: it has no dynamic dimension {name!r}; {listed(declared)}")  # fmt: skip
            if not sizes.within(declared[name]):
                raise ModelFileError(f"{path}: dynamic.{name}: found sizes of {sizes}, but the file is for {declared[name]}; set min and max")  # fmt: skip


def _with_own_errors(read: Callable[..., Any]) -> Callable[..., Any]:
    """A reader of a file that raises BrokenModelFile in place of errors that it does not expect."""

    @functools.wraps(read)
    def reader(path: Path, *args: Any) -> Any:
        try:
            return read(path, *args)
        except (ModelFileError, ImportError):  # a missing package is not the file's fault
            raise
        except Exception as error:
            raise unreadable(path, error) from error

    return reader


UNREADABLE = "it cannot be read ("
"""In the message about a file whose reader has met what it does not expect."""


def unreadable(path: Path, error: Exception) -> BrokenModelFile:
    """What is said about a file whose reader raised an error that it does not expect."""
    return BrokenModelFile(f"{path}: {UNREADABLE}{type(error).__name__}: {first_line(error)[:300]})")  # fmt: skip


def listed(declared: Iterable[str]) -> str:
    """The dynamic dimensions of a file, for error messages."""
    names = ", ".join(declared)
    return f"it has {names}" if names else "all its dimensions have a size"


def given_dims(path: Path, options: Options) -> dict[str, int]:
    """The sizes of the option `dims`. Raises ModelFileError if it is something else."""
    sizes = options.get(DIMS) or {}
    if not isinstance(sizes, Mapping) or not all(type(size) is int and size > 0 for size in sizes.values()):  # fmt: skip
        raise ModelFileError(f"{path}: dims: found {sizes!r}, expected the size of each dynamic dimension, such as {{batch: 8}}")  # fmt: skip
    return dict(sizes)


def given_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file that a model's entry names. Raises ModelError if it is none, or has other values than numbers."""
    try:
        arrays = tensors.load_npz(path)
    except Exception as error:  # numpy raises what it meets in a file of another kind
        raise ModelError(f"{path}: {cause(error)}; expected an .npz file of arrays", Fault.INPUTS) from error  # fmt: skip
    for name, array in arrays.items():
        # Types of ml_dtypes, such as bfloat16, have the kind V.
        if array.dtype.kind not in "biufcV" or array.dtype.fields:
            raise ModelError(f"{path}: {name} has values of type {array.dtype}, expected numbers", Fault.INPUTS)  # fmt: skip
    return arrays


def require_types(
    path: Path, arrays: Mapping[str, np.ndarray], kinds: Sequence[TensorType], by_name: bool = False
) -> None:
    """Raise ModelError unless the arrays of a file have the types of the inputs, in the same order or `by_name`."""
    array_types = {name: f"{array.dtype}{[*array.shape]}" for name, array in arrays.items()}
    expected = {k.name: f"{tensors.DTYPES[k.dtype][1]}{[*k.shape]}" for k in kinds}
    if by_name and array_types != expected:
        raise ModelError(f"{path}: found {array_types}, expected {expected}", Fault.INPUTS)
    if not by_name and [*array_types.values()] != [*expected.values()]:
        raise ModelError(
            f"{path}: found {[*array_types.values()]}, expected {[*expected.values()]}, in this order",
            Fault.INPUTS,
        )


def option_file(options: Options, name: str) -> Path | None:
    """The file that an option names, if it is set."""
    return Path(str(options[name])).expanduser() if options.get(name) else None


def require(
    path: Path,
    options: Options,
    known: Sequence[str],
    what: str,
    note: str = "",
    files: Sequence[str] = (),
) -> None:
    """Raise ModelFileError for an option that is none of `known`, if there is no file, and if one that the options `files` name is
    missing. `what`: what is expected at the path. `note`: the end of the message about an option."""
    refuse_options(path, options, known, note)
    if not isinstance(trust := options.get("trust", False), bool):
        raise ModelFileError(f"{path}: trust: found {trust!r}, expected true or false")
    if not os.path.isfile(path):
        raise ModelFileError(f"{path}: no such file; expected {what} there")
    for name in files:
        if (file := option_file(options, name)) and not os.path.isfile(file):
            raise ModelFileError(f"{path}: {name}: no file {file}; expected an .npz file of arrays")


def json_object(where: str, text: bytes) -> dict[str, Any]:
    """A JSON object of UTF-8 text. Raises BrokenModelFile, which names `where` it is."""
    try:
        value = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise BrokenModelFile(f"{where}: no JSON ({error})") from error
    if not isinstance(value, dict):
        raise BrokenModelFile(f"{where}: found {type(value).__name__}, expected an object")
    return value


BRACES = "has a name with braces, in which Snakemake looks for wildcards; rename it"


def has_braces(path: str | Path) -> bool:
    """Whether a path cannot be an input of a rule, because Snakemake would take a part of it for a wildcard."""
    return not {*"{}"}.isdisjoint(str(path))


@functools.cache
def file_digest(path: Path) -> str:
    """A hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]
