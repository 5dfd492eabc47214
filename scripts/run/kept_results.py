"""Kept results of tuning: the files in FOLDER, and the targets that use them (`tuned: auto`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from scripts.config import plugins, reading
from scripts.config.entries import Choice, Model, Target
from scripts.config.reading import ConfigError
from scripts.config.rows import Matrix
from scripts.config.stages import IREE_ENV
from scripts.core.machine import cpu_name, physical_cores
from scripts.run import environments
from scripts.run.environments import COMPILER
from scripts.iree import compile_options

FOLDER = Path("results/tuned")


class Result(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file of FOLDER: what tuning a model (with these `options`) for a target has found.

    `kept`: whether it is used, and `why`. What it compiles is `frontend`, `opt_level` and `flags` (which may name a
    tuning spec of the user's), for `backend` and `arch`, on `device`, the name of which is `device_name`, with `threads` (None: not a
    CPU). `versions`: of the packages by the names of records. `latency_ms` is that of the last timing, `default_ms` that
    of the configured way that was the fastest, and `speedup` their ratio with the ends of its interval (None without a
    default).
    """

    model: str
    target: str
    options: dict[str, Any]
    kept: bool
    why: str
    frontend: str | None = None
    opt_level: str | None = None
    flags: tuple[str, ...] = ()
    backend: str
    arch: str
    device: str
    device_name: str | None = None
    threads: int | None = None
    versions: dict[str, str] = {}
    latency_ms: float | None = None
    default_ms: float | None = None
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None


def path_of(model: str, target: str, folder: Path = FOLDER) -> Path:
    """Return the file with the result of tuning a model for a target."""
    return folder / model / f"{target}.yaml"


def read(path: Path) -> Result | None:
    """Read such a file; None if there is none. Raises ConfigError that names the file and what is wrong."""
    if not path.exists():
        return None
    try:
        return msgspec.convert(reading.read(path), Result)
    except (ConfigError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path}: {error}; delete it, or restore it") from error


def spec_problem(flags: Iterable[str]) -> str:
    """Return why the tuning spec that flags name cannot be used; "" if it can, or if they name none."""
    path = compile_options.named_spec(flags)
    missing = path is not None and not path.is_file()
    return f"its tuning spec {path} does not exist" if missing else ""


def with_results(matrix: Matrix, folder: Path = FOLDER) -> tuple[Matrix, list[str]]:
    """Return a matrix whose targets use the kept results of tuning, where their entries ask for that.

    And messages about results that are not used because they are of something else. Raises ConfigError
    for a file that cannot be read.
    """
    notes: list[str] = []
    targets = {
        name: dataclasses.replace(target, choices=dict(_choices(matrix, target, folder, notes)))
        if target.tuned
        else target
        for name, target in matrix.targets.items()
    }
    return dataclasses.replace(matrix, targets=targets), notes


def _choices(
    matrix: Matrix, target: Target, folder: Path, notes: list[str]
) -> Iterator[tuple[str, Choice]]:
    """Yield what a target uses for each model."""
    for model in matrix.models.values():
        path = path_of(model.name, target.name, folder)
        result = read(path)
        if result is None or not result.kept or result.frontend is None:
            continue
        if result.frontend not in matrix.frontends:  # of this run; nothing to use it for
            continue
        if problem := _difference(matrix, model, target, result) or spec_problem(result.flags):
            notes.append(f"{path} is not used: {problem}")
            continue
        choice = Choice(result.frontend, result.opt_level or "", result.flags, str(path))
        yield model.name, choice


def _difference(matrix: Matrix, model: Model, target: Target, result: Result) -> str:
    """How a result differs from what would be compiled and measured now; "" if it does not.

    The driver knows the name of this machine's CPU. Of another device it knows only what programs
    are compiled for.
    """
    assert result.frontend is not None
    pairs: dict[str, tuple[object, object]] = {
        "options of the model": (result.options, model.options),
        "backend": (result.backend, target.backend),
        "arch": (result.arch, target.arch),
        "device": (result.device, target.device),
    }
    if target.on_cpu:
        pairs["CPU"] = result.device_name, cpu_name()
        threads = matrix.measure.get("threads") or physical_cores()
        pairs["threads"] = result.threads, threads
    for package, version in versions(matrix, result.frontend).items():
        pairs[package] = result.versions.get(package), version
    differing = (f"{key}: {then}; now: {now}" for key, (then, now) in pairs.items() if then != now)
    return next(differing, "")


def versions(matrix: Matrix, frontend: str) -> dict[str, str]:
    """The versions on which a module of a frontend's program depends, by the names of records."""
    declared = matrix.all_frontends()[frontend]
    pins = environments.pins(declared.env)
    called = plugins.exporter(declared.exporter).versions
    numbers = {name: pins[package] for package, name in called.items() if package in pins}
    return numbers | {"iree": environments.pins(IREE_ENV)[COMPILER]}
