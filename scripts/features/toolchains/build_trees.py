"""Finds the tools and Python packages in a local build or install tree of IREE or torch-mlir.

The layouts are those of IREE's and torch-mlir's CMake builds and installs, of a virtual environment, and
of the unpacked wheels:
https://iree.dev/building-from-source/getting-started/#python-bindings
https://github.com/llvm/torch-mlir/blob/main/docs/development.md
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.matrix.env_files import COMPILER, PACKAGES, RUNTIME, TORCH_MLIR

_SITES = ("", "lib/python*/site-packages")


@dataclass(frozen=True)
class Part:
    """What replaces one package: folders for Python's path (one of which has `module`), and folders in one
    of which there is the tool `tool` ("" if the package needs none). All are globs below the tree.
    `used`: all tools that the stages use."""

    module: str
    pythons: tuple[str, ...]
    tool: str = ""
    tools: tuple[str, ...] = ()
    used: tuple[str, ...] = ()


_PARTS: Mapping[str, Part] = {
    COMPILER: Part(
        module="iree/compiler",
        pythons=("compiler/bindings/python", "python_packages/iree_compiler", *_SITES),
        tool="iree-compile",
        # The wheels' scripts in bin/ start these programs, and turn a signal into an exit code.
        tools=(*(f"{site}/iree/compiler/_mlir_libs".strip("/") for site in _SITES), "tools", "bin"),
        used=("iree-compile", "iree-opt"),
    ),
    RUNTIME: Part(
        module="iree/runtime",
        pythons=("runtime/bindings/python", "python_packages/iree_runtime", *_SITES),
        tool="iree-benchmark-module",
        tools=(*(f"{site}/iree/_runtime_libs".strip("/") for site in _SITES), "tools", "bin"),
        used=("iree-benchmark-module", "iree-run-module", "iree-profile"),
    ),
    TORCH_MLIR: Part(
        module="torch_mlir",
        pythons=(
            "python_packages/torch_mlir",
            "tools/torch-mlir/python_packages/torch_mlir",
            *_SITES,
        ),
    ),
}


@dataclass(frozen=True)
class Found:
    """What was found for one package: folders for Python's path, and the folder of the tools (None: the
    package has none)."""

    pythons: tuple[Path, ...]
    tools: Path | None


class TreeError(ValueError):
    """A folder that is no tree of a project. The message says what was expected in it."""


def parts(project: str, folder: Path) -> dict[str, Found]:
    """Return what a tree has, by the package that it replaces. A package may be missing in it.

    A runtime without both its Python bindings and its tools is left out: modules are verified with the
    one and timed with the other. Of a compiler, the tools are enough. Raises TreeError if the folder has
    nothing, or lacks IREE's compiler.
    """
    found = {name: one for name in PACKAGES[project] if (one := _part(name, folder))}
    first = PACKAGES[project][0]
    if first not in found:
        raise TreeError(f"{folder}: {_expected(_PARTS[first])}")
    return found


def _part(name: str, folder: Path) -> Found | None:
    declared = _PARTS[name]
    pythons = [
        one for one in _matching(folder, declared.pythons) if (one / declared.module).is_dir()
    ]
    if not declared.tool:
        return Found(tuple(pythons[:1]), None) if pythons else None
    tools = [one for one in _matching(folder, declared.tools) if (one / declared.tool).is_file()]
    if not tools or (name == RUNTIME and not pythons):
        return None
    return Found(tuple(pythons[:1]), tools[0])


def _matching(folder: Path, globs: Iterable[str]) -> list[Path]:
    """The folders below a folder that match globs, in the order of the globs. "" is the folder itself."""
    return [
        one
        for pattern in globs
        for one in (sorted(folder.glob(pattern)) if pattern else [folder])
        if one.is_dir()
    ]


def _expected(part: Part) -> str:
    if part.tool:
        places = ", ".join(one for one in part.tools)
        return f"expected the tool {part.tool} in one of the folders {places}"
    places = ", ".join(one or "the folder itself" for one in part.pythons)
    return f"expected the package {part.module} in one of {places}"


def identity(project: str, folder: Path) -> list[tuple[str, int, int]]:
    """Return (path, bytes, modification time in ns) of the programs and libraries of a tree.

    It changes when the tree is built again. Contents are not read: the compiler's library alone has
    hundreds of MB. Raises TreeError as `parts`.
    """
    places: dict[Path, None] = {}
    for name, one in parts(project, folder).items():
        top = _PARTS[name].module.partition("/")[0]
        for python in one.pythons:
            places |= dict.fromkeys(sorted((python / top).glob("**/*.so*")))
        if one.tools is not None:
            names = sorted(one.tools.glob("iree-*")) + sorted(one.tools.glob("lib*.so*"))
            places |= dict.fromkeys(names)
            places |= dict.fromkeys(sorted((one.tools.parent / "lib").glob("libIREE*.so*")))
    return [
        (str(path.relative_to(folder)), found.st_size, found.st_mtime_ns)
        for path in places
        if path.is_file() and (found := path.stat())
    ]


def digest(project: str, folder: Path) -> str:
    """A hash (12 hex digits) of the identity of a tree. Raises TreeError."""
    return hashlib.sha256(repr(identity(project, folder)).encode()).hexdigest()[:12]


def tools(name: str, found: Found) -> list[Path]:
    """Return the tools of a part that the stages use."""
    if found.tools is None:
        return []
    paths = (found.tools / tool for tool in _PARTS[name].used)
    return [path for path in paths if path.is_file()]
