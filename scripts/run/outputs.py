"""The files that the aggregate writes, and damage to them; and the code of a row whose results were never compared.

No stage reads results/latency.csv, so the aggregate stores digests of its files: a run compares the sizes before it plans, and
readers before they read.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from scripts.config import feature, stages
from scripts.core import atomic, commands
from scripts.core.atomic import Digest
from scripts.measure.verify import verification
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
    """Return the records of rows that were measured on other machines (scripts.tools.report.verbs.import_record)."""
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
