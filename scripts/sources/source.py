"""The declaration of a source."""

from __future__ import annotations

import difflib
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from scripts.torch_model.errors import ModelFileError

ModelKind = Literal["module", "onnx", "mlir"]
"""What a source gives: a module of PyTorch, an ONNX graph, or a program of MLIR. Exporters and runtimes declare which of these they take."""
MODEL_KINDS = get_args(ModelKind)

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
    files.
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


def require(path: Path, options: Options, known: Sequence[str], what: str, note: str = "") -> None:
    """Raise ModelFileError for an option that is none of `known`, and if there is no file. `what`: what is expected
    there. `note`: the end of the message about an option."""
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ModelFileError(f"{path}: takes no option {option!r} (it takes {', '.join(known)}){hint}{note}")  # fmt: skip
    if not path.is_file():
        raise ModelFileError(f"{path}: no such file; expected {what} there")


@functools.cache
def file_digest(path: Path) -> str:
    """A hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]
