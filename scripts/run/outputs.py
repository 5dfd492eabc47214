"""The files that the aggregate writes, and damage to them; and the code of a row whose results were never compared.

No stage reads results/latency.csv, so the aggregate stores digests of its files: a run compares the sizes before it plans, and
readers before they read.
"""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from scripts.config import feature, plugins, reading, stages
from scripts.config.entries import Choice, Model, Target
from scripts.config.reading import ConfigError
from scripts.config.rows import Matrix
from scripts.config.stages import IREE_ENV
from scripts.core import atomic, commands
from scripts.core.atomic import Digest
from scripts.core.machine import cpu_name, physical_cores
from scripts.iree import compile_options
from scripts.measure.verify import verification
from scripts.run import environments
from scripts.run.environments import COMPILER
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome

CSV = Path("results/latency.csv")
JSONL = CSV.with_name("results.jsonl")
FILES = (CSV, CSV.with_name("latency.md"), JSONL)
CPU_FILES = tuple(file.parent / "cpu" / file.name for file in FILES)
"""Those of the rows on the CPU, which a run writes before it compiles for other devices."""

Versions = dict[Path, tuple[int, ...]]


def files_of(name: str) -> tuple[Path, ...]:
    """The CSV of a feature, and the page and the JSON lines beside it."""
    csv = CSV.with_stem(name)
    return csv, csv.with_suffix(".md"), csv.with_suffix(".jsonl")


def of_features() -> list[tuple[Path, ...]]:
    """The files that the features aggregate."""
    return [files_of(declared.csv) for declared in feature.LOADED.values() if declared.csv]


def imported(results: Path = CSV.parent) -> list[str]:
    """Return the records of rows that were measured on other machines (scripts.tools.report.import_record)."""
    return sorted(map(str, (results / "imported").glob("*/*.json")))


def versions() -> Versions:
    """Return what tells the present tables, which a run may write, from later ones. It is no time: clocks may be set."""
    tables = (CSV, *(files[0] for files in of_features()))
    return {table: _version(table) for table in tables if table.exists()}


def _version(table: Path) -> tuple[int, ...]:
    stat = table.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def written_rows(before: Versions, table: Path = CSV) -> Iterator[dict[str, str]] | None:
    """Return the rows of a CSV, which are read one at a time, or None if it is still the one of `before`, or not there."""
    is_written = table.exists() and _version(table) != before.get(table)
    return rows(table) if is_written else None


def rows(table: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV with the texts that the records have (core/commands.py, csv_text)."""
    with table.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield {name: commands.csv_text(value) for name, value in row.items()}


def record_path(file: Path) -> Path:
    """Return the path of the digests of a file that the aggregate writes into results/."""
    stems = {path.stem for path in FILES}
    name = "aggregate.json" if file.stem in stems else f"aggregate_{file.stem}.json"
    return file.parent / "logs" / name


@dataclass(frozen=True)
class _Record:
    """What is known of the files that the aggregate wrote into a folder: the param `due` that they were written for, their
    digests by name, and what they are made from (results/at_hand.py)."""

    due: int = 0
    files: dict[str, Digest] = field(default_factory=dict)
    made_from: dict[str, Any] | None = None


def record(due: str, files: Sequence[Path], made_from: dict[str, Any]) -> None:
    """Store what is known of files in one folder."""
    digests = {file.name: atomic.digest_of(file) for file in files}
    atomic.write_json(record_path(files[0]), asdict(_Record(int(due), digests, made_from)))


def made_from(file: Path) -> dict[str, Any]:
    """Return what a file that the aggregate wrote is made from; {} if that is not known."""
    return _recorded(file).made_from or {}


def difference(file: Path, compared: Callable[[Path, Digest], str] = atomic.size_difference) -> str:
    """Return how a file differs from the file that the aggregate wrote. `compared`: compares it with its digest.

    Returns "" if it does not differ, has no digest, or does not exist.
    """
    recorded = _recorded(file).files.get(file.name) if file.exists() else None
    what = compared(file, recorded) if recorded else ""
    return f"{file} is damaged: {what}" if what else ""


def due(files: Sequence[Path]) -> str:
    """Return the param that requests files: a new value if one of them is damaged, else the value that they were written for."""
    return str(_recorded(files[0]).due + any(map(difference, files)))


def _recorded(file: Path) -> _Record:
    """Return what is known of a file and of those beside it; nothing of one of an older version. If that cannot be read, the
    param is a new one, so that it is written again."""
    path = record_path(file)
    try:
        # An older version wrote the param as text.
        return msgspec.json.decode(path.read_bytes(), type=_Record, strict=False)
    except OSError:
        return _Record()
    except (ValueError, RecursionError):
        return _Record(path.stat().st_mtime_ns)


def code_of_unmeasured(decisive: Outcome) -> str:
    """Return the code, given the outcome of the stage that was not ok and so ended the row."""
    if decisive.status == outcome.DAMAGED:
        return verification.DIDNT_RUN
    if decisive.status == outcome.SKIPPED:
        return verification.SKIPPED
    if decisive.stage in ("reference", "gradients"):
        undecided = decisive.reason == "nondeterministic-eager"
        return verification.NONDETERMINISTIC if undecided else verification.EAGER_FAILED
    ran = decisive.stage in stages.LAST.values()
    if ran and decisive.status in ("error", "crashed"):
        return verification.EXCEPTION_RAISED
    return verification.DIDNT_RUN


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
    for package, version in kept_versions(matrix, result.frontend).items():
        pairs[package] = result.versions.get(package), version
    differing = (f"{key}: {then}; now: {now}" for key, (then, now) in pairs.items() if then != now)
    return next(differing, "")


def kept_versions(matrix: Matrix, frontend: str) -> dict[str, str]:
    """The versions on which a module of a frontend's program depends, by the names of records."""
    declared = matrix.all_frontends()[frontend]
    pins = environments.pins(declared.env)
    called = plugins.exporter(declared.exporter).versions
    numbers = {name: pins[package] for package, name in called.items() if package in pins}
    return numbers | {"iree": environments.pins(IREE_ENV)[COMPILER]}
