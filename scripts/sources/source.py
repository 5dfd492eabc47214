"""The declaration of a source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

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
