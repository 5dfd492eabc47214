"""An ONNX file. Its weights may be in files beside it.

A dimension that the file leaves open is 1, unless the entry's `dims` sets it. The package onnx is imported only if there is such a
file, because most environments lack it.
"""

from __future__ import annotations

from pathlib import Path

from scripts.core.dimensions import Sizes
from scripts.sources.source import Facts, Options, Source


def _check(path: Path, options: Options) -> None:
    from scripts.sources import onnx_graph

    onnx_graph.check(path, options)


def _facts(path: Path, options: Options) -> Facts:
    from scripts.sources import onnx_graph

    return onnx_graph.facts(path, options)


def _parts(path: Path, options: Options) -> list[Path]:
    from scripts.sources import onnx_graph

    return onnx_graph.parts(path, options)


def _digest(path: Path) -> str:
    from scripts.sources import onnx_graph

    return onnx_graph.digest(path)


def _open_dims(path: Path) -> dict[str, Sizes]:
    from scripts.sources import onnx_graph

    return {name: Sizes(()) for name in onnx_graph.open_dims(onnx_graph.read(path))}


SOURCE = Source(
    name="onnx",
    kind="onnx",
    expected="an ONNX file (.onnx)",
    takes=lambda path: path.suffix == ".onnx",
    check=_check,
    facts=_facts,
    parts=_parts,
    digest=_digest,
    path_options=("inputs",),
    open_dims=_open_dims,
)
