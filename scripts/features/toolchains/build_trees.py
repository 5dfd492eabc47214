"""Finds the tools and Python packages in a local build or install tree of IREE or torch-mlir.

The layouts are those of IREE's and torch-mlir's CMake builds and installs, of a virtual environment, and
of the unpacked wheels:
https://iree.dev/building-from-source/getting-started/#python-bindings
https://github.com/llvm/torch-mlir/blob/main/docs/development.md
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.run.environments import COMPILER, PACKAGES, RUNTIME, TORCH_MLIR

_SITES = ("", "lib/python*/site-packages")


@dataclass(frozen=True)
class Part:
    """What replaces one package: folders for Python's path (one of which has `module`), and folders in one
    of which there is the tool `tool` ("" if the package needs none). All are globs below the tree.
    `binding`: what an import loads of the libraries. `used`: all tools that the stages use."""

    module: str
    binding: str
    pythons: tuple[str, ...]
    tool: str = ""
    tools: tuple[str, ...] = ()
    used: tuple[str, ...] = ()


_PARTS: Mapping[str, Part] = {
    COMPILER: Part(
        module="iree/compiler",
        binding="iree.compiler.ir",
        pythons=("compiler/bindings/python", "python_packages/iree_compiler", *_SITES),
        tool="iree-compile",
        # The wheels' scripts in bin/ start these programs, and turn a signal into an exit code.
        tools=(*(f"{site}/iree/compiler/_mlir_libs".strip("/") for site in _SITES), "tools", "bin"),
        used=("iree-compile", "iree-opt"),
    ),
    RUNTIME: Part(
        module="iree/runtime",
        binding="iree.runtime",
        pythons=("runtime/bindings/python", "python_packages/iree_runtime", *_SITES),
        tool="iree-benchmark-module",
        tools=(*(f"{site}/iree/_runtime_libs".strip("/") for site in _SITES), "tools", "bin"),
        used=("iree-benchmark-module", "iree-run-module", "iree-profile"),
    ),
    TORCH_MLIR: Part(
        module="torch_mlir",
        binding="torch_mlir.extras.fx_importer",
        pythons=(
            "python_packages/torch_mlir",
            "tools/torch-mlir/python_packages/torch_mlir",
            *_SITES,
        ),
    ),
}


@dataclass(frozen=True)
class Found:
    """What was found for one package: a folder for Python's path, and the folder of the tools (None: there is none)."""

    part: Part
    python: Path | None
    folder: Path | None

    @property
    def tools(self) -> list[Path]:
        """The tools that the stages use."""
        paths = [self.folder / tool for tool in self.part.used] if self.folder else []
        return [path for path in paths if path.is_file()]

    def binaries(self) -> Iterator[Path]:
        """Its programs and libraries."""
        if self.python:
            yield from sorted((self.python / self.part.module.split("/")[0]).glob("**/*.so*"))
        if self.folder:
            yield from sorted(self.folder.glob("iree-*"))
            yield from sorted(self.folder.glob("lib*.so*"))
            yield from sorted((self.folder.parent / "lib").glob("libIREE*.so*"))


class TreeError(ValueError):
    """A folder that is no tree of a project. The message says what was expected in it."""


def parts(project: str, folder: Path) -> dict[str, Found]:
    """Return what a tree has, by the package that it replaces. A package may be missing in it.

    A runtime without both its Python bindings and its tools is left out: modules are verified with the
    one and timed with the other. Of a compiler, the tools are enough. Raises TreeError if the folder has
    nothing, or lacks IREE's compiler.
    """
    if not os.path.isdir(folder):
        raise TreeError(
            f"no folder {folder}; expected a version, or the folder of a build or install tree"
        )
    available = {name: part for name in PACKAGES[project] if (part := _part(name, folder))}
    first = PACKAGES[project][0]
    if first not in available:
        raise TreeError(f"{folder}: {_expected(_PARTS[first])}")
    return available


def _part(name: str, folder: Path) -> Found | None:
    part = _PARTS[name]
    python = next((at for at in _places(folder, part.pythons) if (at / part.module).is_dir()), None)
    tools = next((at for at in _places(folder, part.tools) if (at / part.tool).is_file()), None)
    needed = {COMPILER: [tools], RUNTIME: [tools, python]}.get(name, [python])
    return Found(part, python, tools) if None not in needed else None


def _places(folder: Path, globs: Iterable[str]) -> Iterator[Path]:
    """What globs match below a folder, in their order. "" is the folder itself."""
    for pattern in globs:
        yield from sorted(folder.glob(pattern)) if pattern else [folder]


def _expected(part: Part) -> str:
    if part.tool:
        return f"expected the tool {part.tool} in one of the folders {', '.join(part.tools)}"
    places = ", ".join(place or "the folder itself" for place in part.pythons)
    return f"expected the package {part.module} in one of {places}"


def digest(project: str, folder: Path) -> str:
    """A hash (12 hex digits) of a tree, which changes when it is built again. Raises TreeError.

    It is of (path, bytes, modification time in ns) of the programs and libraries. Contents are not read: the
    compiler's library alone has hundreds of MB.
    """
    paths = dict.fromkeys(
        path for part in parts(project, folder).values() for path in part.binaries()
    )
    identity = [
        (str(path.relative_to(folder)), stat.st_size, stat.st_mtime_ns)
        for path in paths
        if path.is_file() and (stat := path.stat())
    ]
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:12]
