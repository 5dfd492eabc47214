"""The declarations of exporters and runtimes, read from their files without importing them.

Each file of scripts/exporters and scripts/baselines defines the fields of its class below, in capital
letters, as plain literals. The driver reads them all without having their packages, so nothing is
listed in a second place.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from scripts.core import checkout, python_source
from scripts.matrix.precision import TESTS

ROOT = checkout.ROOT
EXPORTERS = "scripts/exporters"
RUNTIMES = "scripts/baselines"
DEVICES = ("cpu", "cuda")
"""The kinds of device that a baseline's entry may name."""
TAKES = ("precision", "xla_flags", "program", "compile", "rewrites")
"""Keys of a baseline's entry that only some runtimes support."""


class DeclarationError(Exception):
    """A declaration is missing or wrong. Names the file, what was found and what was expected."""


@dataclass(frozen=True)
class Exporter:
    """A file of scripts/exporters.

    `options`: what a frontend must set, and the possible values. `rewrites`: those of fx_rewrites that
    its programs need, and for which dialects. `versions`: distributions to report.
    `tests`: what it exports; `train` needs capture.functional. `memory_factor`: peak resident memory as a
    multiple of the size of the weights, in addition to 1 GB for torch. `forkable`: whether its process may be forked from one that has imported the
    packages of its environment, has computed nothing and has one thread.
    """

    name: str
    options: Mapping[str, tuple[str, ...]]
    rewrites: Mapping[str, tuple[str, ...]]
    tests: tuple[str, ...]
    versions: Mapping[str, str]
    memory_factor: float
    forkable: bool


@dataclass(frozen=True)
class Runtime:
    """A file of scripts/baselines. `versions`, `memory_factor` and `forkable` are as for an exporter.

    `devices`, `tests`: those that it supports; another test is `unsupported`. `takes`: optional keys of
    a baseline's entry that it supports. `lazy`: whether a call only traces, and execution happens when
    a value is read or the call is finished.
    """

    name: str
    devices: tuple[str, ...]
    tests: tuple[str, ...]
    takes: tuple[str, ...]
    lazy: bool
    versions: Mapping[str, str]
    memory_factor: float
    forkable: bool


Plugin = TypeVar("Plugin", Exporter, Runtime)


def _texts(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(text, str) for text in value)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _are_choices(value: Any) -> bool:
    return isinstance(value, dict) and _texts((*value,)) and all(map(_texts, value.values()))


def _some_of(known: tuple[str, ...]) -> tuple[str, Callable[[Any], bool]]:
    expected = f"a tuple, some of {', '.join(known)}"
    return expected, lambda value: _texts(value) and {*value} <= {*known}


_FORMS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "options": ("a dict from an option to a tuple of strings", _are_choices),
    "rewrites": ("a dict from a rewrite to a tuple of strings", _are_choices),
    "devices": _some_of(DEVICES),
    "tests": _some_of(TESTS),
    "takes": _some_of(TAKES),
    "lazy": ("True or False", _is_flag),
    "forkable": ("True or False", _is_flag),
    "versions": (
        "a dict from a distribution to what a row's `versions` call it",
        lambda value: isinstance(value, dict) and _texts((*value, *value.values())),
    ),
    "memory_factor": (
        "a number above 0",
        lambda value: isinstance(value, int | float) and value > 0,
    ),
}
"""What is expected of each field, in words and as a check. A field is declared under its name in capital letters."""


def exporter(name: str, root: Path = ROOT) -> Exporter:
    """What scripts/exporters/<name>.py declares. Raises DeclarationError; OSError without a file."""
    return _read(Exporter, root / EXPORTERS / f"{name}.py")


def runtime(name: str, root: Path = ROOT) -> Runtime:
    """What scripts/baselines/<name>.py declares. Raises DeclarationError; OSError without a file."""
    return _read(Runtime, root / RUNTIMES / f"{name}.py")


def exporters() -> list[Exporter]:
    """All of them."""
    return [exporter(name) for name in _names(EXPORTERS)]


def runtimes() -> list[Runtime]:
    """All of them."""
    return [runtime(name) for name in _names(RUNTIMES)]


def speed_rewrites(root: Path = ROOT) -> tuple[str, ...]:
    """The names of the rewrites for speed, which scripts/lowering/fx_rewrites declares."""
    path = root / "scripts/lowering/fx_rewrites/__init__.py"
    return _literal(path, "SPEED", "a tuple of names", _texts)


def installed(versions: Mapping[str, str]) -> dict[str, str]:
    """The versions of these distributions in this environment, by their names in rows.

    For a package that is imported it is `__version__`, which includes the build (2.15.0+cu132).
    """
    return {
        called: getattr(sys.modules.get(distribution), "__version__", None)
        or importlib.metadata.version(distribution)
        for distribution, called in versions.items()
    }


def _names(folder: str) -> list[str]:
    return sorted(path.stem for path in (ROOT / folder).glob("*.py") if path.stem[0] != "_")


def _read(kind: type[Plugin], path: Path) -> Plugin:
    stat = path.stat()
    fields = tuple(field.name for field in dataclasses.fields(kind) if field.name in _FORMS)
    return kind(name=path.stem, **_values(fields, path, stat.st_mtime_ns, stat.st_size))


@functools.cache
def _values(fields: tuple[str, ...], path: Path, *_: int) -> dict[str, Any]:
    """The values of these fields in a file, as it is now."""
    return {name: _literal(path, name.upper(), *_FORMS[name]) for name in fields}


def _literal(path: Path, name: str, expected: str, holds: Callable[[Any], bool]) -> Any:
    missing = object()
    try:
        value = python_source.literal(path, name, missing)
    except SyntaxError as error:
        raise DeclarationError(f"{path}: {error.msg} in line {error.lineno}") from error
    except ValueError:
        found = "an expression"
    else:
        if value is not missing and holds(value):
            return value
        found = "nothing" if value is missing else repr(value)
    raise DeclarationError(
        f"{path}: {name}: found {found}, expected {expected}, as a plain literal"
    )
