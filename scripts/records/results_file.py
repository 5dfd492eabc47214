"""Reads results.jsonl and checks every record. Errors name the file and the line."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import jsonschema
import msgspec

from scripts.core import checkout
from scripts.matrix import cell
from scripts.matrix.cell import Cell, Kind
from scripts.matrix.choices import TESTS
from scripts.records import fields
from scripts.records.columns import FIELDS
from scripts.records.fields import FLAG, INTEGER, LIST, NUMBER, OBJECT, TEXT, Field
from scripts.records.fields import Kind as ValueKind
from scripts.run import outputs
from scripts.supervise import outcome
from scripts.timing.calls import Run

NAME = r"\A(?!\.)[^/\\\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]{1,200}\Z"
"""Names of models, suites, frontends, targets, runtimes and devices, which are parts of paths and are printed."""
MOST_CHARS = 4_000_000
"""Of a record: more than a thousand times the usual ones."""


class BadRecords(Exception):
    """An error in the records: what is wrong, where, and what to do about it."""


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """One line of results.jsonl. Two lines are two records, even if they are equal."""

    path: Path
    line: int
    data: dict

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"

    @property
    def is_iree(self) -> bool:
        return self["runtime"] == "iree"

    @property
    def latency(self) -> dict | None:
        """The latency; None unless the verification passed."""
        return self.data["latency"]

    def __getitem__(self, key: str) -> Any:
        """The value of one of CELL_KEYS. If an older record lacks it, None; for `precision`, "none"."""
        experiment = self.data["experiment"]
        if key in ("model", "suite"):
            return self.data["model"]["name" if key == "model" else "suite"]
        if key == "cell":
            return str(cell_of(self.data))
        if key == "precision":
            return experiment.get(key) or "none"
        return experiment.get(key)

    @property
    def parts(self) -> list[str]:
        """The parts of the cell's name after the model: frontend and target, or baseline and test."""
        return self["cell"].split("/")[1:]

    @property
    def failure(self) -> str:
        """ "<status>: <detail>" of a cell that was not measured."""
        result = self.data["outcome"]
        return f"{result['status']}: {result['detail'] or result.get('reason') or 'not measured'}"

    @property
    def runs(self) -> list[Run]:
        """The cold run, then a call for each of `latency.values_ms`, with what the runtime has counted in the warm run; [] for a
        cell that was not timed."""
        if self.latency is None:
            return []
        cold, *warm = (Run(**run) for run in self.data["runs"])
        call = warm[0] if warm else Run(0.0)
        values = self.latency["values_ms"]
        return [cold, *(dataclasses.replace(call, total_s=ms / 1e3) for ms in values)]


def cell_of(record: Mapping[str, Any]) -> Cell:
    """The cell of a record."""
    experiment = record["experiment"]
    kind = Kind.IREE if experiment["runtime"] == "iree" else Kind.BASELINE
    # A baseline with the name of its runtime has no target.
    named = experiment.get("frontend"), experiment["target"] or experiment["runtime"], experiment.get("test")  # fmt: skip
    return _cell(kind, record["model"]["name"], *named)


@functools.lru_cache(1 << 16)  # rows of many runs have the same cells
def _cell(kind: Kind, model: str, frontend: str | None, target: str, test: str | None) -> Cell:
    return cell.of_columns(kind, model, {"frontend": frontend, "target": target, "test": test})


_Positive = Annotated[float, msgspec.Meta(gt=0)]


class _Run(msgspec.Struct, forbid_unknown_fields=True):
    total_s: _Positive
    iterations: Annotated[int, msgspec.Meta(ge=1)]
    trace_s: float | None = None
    compile_s: float | None = None
    compile_count: float | None = None
    execute_s: float | None = None
    execute_count: float | None = None


_NEEDED = {
    "model.name": Annotated[str, msgspec.Meta(pattern=NAME)],
    "model.suite": Annotated[str, msgspec.Meta(pattern=NAME)],
    "experiment.test": Literal[TESTS],
    "experiment.runtime": Annotated[str, msgspec.Meta(pattern=NAME)],
    **dict.fromkeys(
        ("experiment.frontend", "experiment.target"),
        Annotated[str, msgspec.Meta(pattern=NAME)] | None,
    ),
    "experiment.dtype": str,
    "experiment.batch_size": int | None,
    "experiment.device": Annotated[str, msgspec.Meta(pattern=NAME)],
    "outcome.status": Literal[outcome.STATUSES],
    "outcome.detail": str,
    "verification.code": str,
    "run": None,
    "latency.ms": _Positive,
    "latency.values_ms": Annotated[list[_Positive], msgspec.Meta(min_length=1)],
}
"""What readers need of a record, which an older version or another tool may have written, by its path."""
_TYPES: dict[ValueKind, Any] = {TEXT: str, INTEGER: int, NUMBER: float, FLAG: bool, LIST: list, OBJECT: dict}  # fmt: skip
_BOUNDS = {"exclusiveMinimum": "gt", "minimum": "ge"}


def _type(field: Field) -> Any:
    """The type of a value that may be missing. A missing one may be null too."""
    kind: Any = _TYPES[field.kind]
    items = field.checks.get("items", {}).get("type")
    if items == "string":
        kind = list[str]
    elif items == "number":
        kind = list[float]
    if field.kind is INTEGER:
        kind = Annotated[int, msgspec.Meta(le=2**63 - 1)]
    if bounds := {_BOUNDS[k]: v for k, v in field.checks.items() if k in _BOUNDS}:
        kind = Annotated[kind, msgspec.Meta(**bounds)]
    return kind | None


def _form(above: str = "") -> Any:
    """The class of a section of a record, or of the whole: what is there has the type of its field."""
    members: list[Any] = []
    for field in FIELDS:
        parent, _, name = field.path.rpartition(".")
        if not field.path or parent != above or not name.isidentifier():
            continue
        form: Any = _NEEDED.get(field.path)
        has_needed = any(f"{path}.".startswith(f"{field.path}.") for path in _NEEDED)
        is_needed = has_needed and not (field.nullable and field.kind is OBJECT)
        if field.path == "runs":
            form = list[_Run] | None
        elif field.kind is OBJECT and any(f.path.startswith(f"{field.path}.") for f in FIELDS):
            form = _form(field.path) if is_needed else _form(field.path) | None
        form = form or _type(field)
        members.append((name, form) if is_needed else (name, form, None))
    members.sort(key=len)  # those with a default are last
    return msgspec.defstruct(f"_{above or 'Record'}".replace(".", "_"), members)


_record = functools.cache(_form)


def read(path: Path) -> list[Record]:
    """Every record of a results.jsonl.

    Raises BadRecords, naming file and line, if a line is not a record or the file is damaged.
    """
    if not path.is_file():
        raise BadRecords(
            f"{path}: no such file; run `{checkout.run_command('results/latency.csv')}` first,"
            " or name another with --results"
        )
    if what := outputs.difference(path):
        raise BadRecords(
            f"{what}; `{checkout.run_command('results/latency.csv')}` makes it again (a copy that was"
            " edited can be read from another folder: name it with --results)"
        )
    try:
        # Not splitlines(): a message may hold other line separators, which JSON does not escape.
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise BadRecords(f"{path}: not UTF-8 ({error}); is this a results.jsonl?") from error
    return [
        _parse(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()
    ]


@functools.cache
def _line_decoder() -> msgspec.json.Decoder:
    return msgspec.json.Decoder(_record())


def check_line(line: bytes) -> None:
    """Raise msgspec.DecodeError if a line is not a record whose values have the types of their fields, as `check_form` does."""
    known: Any = _line_decoder().decode(line)
    if known.latency and not known.runs:
        raise msgspec.ValidationError("a latency without runs")


def check_form(record: Mapping[str, Any]) -> None:
    """Raise ValueError if a value of a record has another type than that of its field, or a name could leave its folder."""
    msgspec.convert(record, _record())


def check(records: Iterable[Record]) -> None:
    """Raise BadRecords, naming file and line, for the first record that does not follow the schema of this version."""
    validator = jsonschema.Draft202012Validator(fields.schema(FIELDS))
    for record in records:
        for problem in validator.iter_errors(record.data):
            where = ".".join(map(str, problem.absolute_path)) or "record"
            message = textwrap.shorten(problem.message, 300, placeholder=" …")
            raise BadRecords(
                f"{record.where}: {where}: {message}; expected a record of this version of the project"
            )


@contextlib.contextmanager
def explained(records: Iterable[Record]) -> Iterator[None]:
    """Raise BadRecords in place of the error that a value causes which a record lacks, or which has another form."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ArithmeticError):
        check(records)
        raise


def _parse(path: Path, number: int, line: str) -> Record:
    if len(line) > MOST_CHARS:
        raise BadRecords(
            f"{path}:{number}: found a line of {len(line):,} characters, expected at most {MOST_CHARS:,}; take it out"
        )
    try:
        known: Any = msgspec.json.decode(line, type=_record())
        data = json.loads(line)
    except msgspec.ValidationError as error:
        raise BadRecords(
            f"{path}:{number}: {error}; expected a record of this project, as in a results.jsonl of its own"
        ) from error
    except (ValueError, RecursionError) as error:
        raise BadRecords(
            f"{path}:{number}: not valid JSON ({error}); make the file again with"
            f" `{checkout.run_command('results/latency.csv', options='--force')}`, or take the line out"
        ) from error
    if known.latency and not known.runs:
        raise BadRecords(f"{path}:{number}: a latency without runs")
    return Record(path, number, data)
