"""An ONNX file. Its weights may be in files beside it.

A dimension that the file leaves open is 1, unless the entry's `dims` sets it. The package onnx is imported only if there is such a
file, because most environments lack it.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from scripts.core.dimensions import Sizes
from scripts.sources.source import Source


def _graph() -> ModuleType:
    from scripts.sources import onnx_graph

    return onnx_graph


def _open_dims(path: Path) -> dict[str, Sizes]:
    return {name: Sizes(()) for name in _graph().open_dims(_graph().read(path))}


SOURCE = Source(
    name="onnx",
    kind="onnx",
    expected="an ONNX file (.onnx)",
    takes=lambda path: path.suffix == ".onnx",
    check=lambda path, options: _graph().check(path, options),
    facts=lambda path, options: _graph().facts(path, options),
    parts=lambda path, options: _graph().parts(path, options),
    digest=lambda path: _graph().digest(path),
    path_options=("inputs",),
    open_dims=_open_dims,
)
