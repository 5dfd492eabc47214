"""The declarations of exporters and runtimes, read from their files without importing them.

Each file of scripts/frontends/exporters and scripts/baselines defines the fields of its class below, in capital
letters, as plain literals. The driver reads them all without having their packages, so nothing is
listed in a second place.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import importlib.metadata
import inspect
import sys
import typing
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from scripts.config.choices import Test
from scripts.core import checkout, python_source
from scripts.frontends.sources.source import ModelKind

ROOT = checkout.ROOT
EXPORTERS = "scripts/frontends/exporters"
RUNTIMES = "scripts/baselines"
Device = Literal["cpu", "cuda"]
DEVICES = get_args(Device)
"""The kinds of device that a baseline's entry may name."""
Key = Literal["precision", "xla_flags", "program", "compile", "rewrites"]
TAKES = get_args(Key)
"""Keys of a baseline's entry that only some runtimes support."""


class DeclarationError(Exception):
    """A declaration is missing or wrong. Names the file, what was found and what was expected."""


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """What the files of both folders declare. `tests`: those that it exports or runs; `train` of an exporter needs
    capture.functional, and another test of a runtime is `unsupported`. `versions`: distributions to report. `memory_factor`:
    peak resident memory as a multiple of the size of the weights, in addition to 1 GB for torch. `forkable`: whether its
    process may be forked from one that has imported the packages of its environment, has computed nothing and has one thread.
    `sources`: the kinds of models that it takes.
    """

    name: str
    tests: tuple[Test, ...]
    versions: dict[str, str]
    memory_factor: float
    forkable: bool
    sources: tuple[ModelKind, ...] = ("module",)


@dataclass(frozen=True, kw_only=True)
class Exporter(Declaration):
    """A file of scripts/frontends/exporters. `options`: what a frontend must set, and the possible values. `rewrites`: those of
    fx_rewrites that its programs need, and for which dialects. `dynamic`: whether it exports programs for all sizes of some
    dimensions (capture.capture).
    """

    options: dict[str, tuple[str, ...]]
    rewrites: dict[str, tuple[str, ...]]
    dynamic: bool = False


@dataclass(frozen=True, kw_only=True)
class Runtime(Declaration):
    """A file of scripts/baselines. `devices`: those that it supports. `takes`: optional keys of a baseline's entry that it
    supports. `lazy`: whether a call only traces, and execution happens when a value is read or the call is finished.
    """

    devices: tuple[Device, ...]
    takes: tuple[Key, ...] = ()
    lazy: bool = False


Plugin = TypeVar("Plugin", Exporter, Runtime)


def exporter(name: str, root: Path = ROOT) -> Exporter:
    """What scripts/frontends/exporters/<name>.py declares. Raises DeclarationError; OSError without a file."""
    return _read(Exporter, root / EXPORTERS / f"{name}.py")


def runtime(name: str, root: Path = ROOT) -> Runtime:
    """What scripts/baselines/<name>.py declares. Raises DeclarationError; OSError without a file."""
    return _read(Runtime, root / RUNTIMES / f"{name}.py")


def readable(read: Callable[[str, Path], Plugin], name: str, root: Path) -> Plugin | None:
    """What a file declares; None if there is something wrong with it, which the checks of entries say."""
    try:
        return read(name, root)
    except (OSError, DeclarationError):
        return None


def exporters() -> list[Exporter]:
    """All of them."""
    return [exporter(name) for name in _names(EXPORTERS)]


def runtimes() -> list[Runtime]:
    """All of them."""
    return [runtime(name) for name in _names(RUNTIMES)]


def speed_rewrites(root: Path = ROOT) -> tuple[str, ...]:
    """The names of the rewrites for speed, which scripts/frontends/lowering/fx_rewrites declares."""
    path = root / "scripts/frontends/lowering/fx_rewrites/__init__.py"
    return literal(path, "SPEED", tuple[str, ...])


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
    return kind(
        name=path.stem, **_values(cast("Hashable", kind), path, stat.st_mtime_ns, stat.st_size)
    )


@functools.cache
def _values(kind: Hashable, path: Path, *_: int) -> dict[str, Any]:
    """The values of the fields of a plugin in its file, as it is now. A file may leave out those with a default."""
    forms = get_type_hints(kind)
    return {
        field.name: literal(path, field.name.upper(), forms[field.name], field.default)
        for field in dataclasses.fields(cast("Any", kind))
        if field.name != "name"
    }


def literal(path: Path, name: str, form: Any, default: Any = dataclasses.MISSING) -> Any:
    """A literal of a file, of a type. Raises DeclarationError, and OSError without a file."""
    missing = object()
    try:
        value = python_source.literal(path, name, missing)
        if value is missing and default is not dataclasses.MISSING:
            return default
    except SyntaxError as error:
        raise DeclarationError(f"{path}: {error.msg} in line {error.lineno}") from error
    except ValueError:
        shown = "an expression"
    else:
        if value is not missing and _has(form, value):
            return value
        shown = "nothing" if value is missing else repr(value)
    expected = (
        "a number above 0"
        if form is float
        else inspect.formatannotation(form).replace("typing.", "")
    )
    raise DeclarationError(
        f"{path}: {name}: found {shown}, expected {expected}, as a plain literal"
    )


def _has(form: Any, value: Any) -> bool:
    """Whether a value is of a type. Numbers are factors, which are above 0."""
    parts = get_args(form)
    match get_origin(form) or form:
        case typing.Any:
            return True
        case typing.Literal:
            return value in parts
        case builtins.tuple:
            return isinstance(value, tuple) and all(_has(parts[0], item) for item in value)
        case builtins.dict:
            return isinstance(value, dict) and all(
                _has(parts[0], key) and _has(parts[1], inner) for key, inner in value.items()
            )
        case builtins.float:
            return isinstance(value, int | float) and value > 0
    return isinstance(value, form)
