"""Reads results.jsonl and checks every record. Errors name the file and the line."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from scripts.matrix import cell
from scripts.matrix.cell import Cell, Kind
from scripts.matrix.precision import TESTS
from scripts.run import outputs
from scripts.timing.measurement import Run


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
    named = experiment | {"target": experiment["target"] or experiment["runtime"]}
    return cell.of_columns(kind, record["model"]["name"], named)


_Positive = Annotated[float, msgspec.Meta(gt=0)]


class _Run(msgspec.Struct, forbid_unknown_fields=True):
    total_s: _Positive
    iterations: Annotated[int, msgspec.Meta(ge=1)]
    trace_s: float | None = None
    compile_s: float | None = None
    compile_count: float | None = None
    execute_s: float | None = None
    execute_count: float | None = None


class _Latency(msgspec.Struct):
    ms: _Positive
    values_ms: Annotated[list[_Positive], msgspec.Meta(min_length=1)]


_EXPERIMENT = ("runtime", "frontend", "target", "dtype", "batch_size", "device")
_Record = msgspec.defstruct(
    "_Record",
    [
        ("model", msgspec.defstruct("_Model", ["name", "suite"])),
        ("experiment", msgspec.defstruct("_Experiment", [("test", Literal[TESTS]), *_EXPERIMENT])),
        ("outcome", msgspec.defstruct("_Outcome", ["status", "detail"])),
        ("verification", msgspec.defstruct("_Verification", ["code"])),
        ("run", dict[str, Any]),
        ("latency", _Latency | None, None),
        ("runs", list[_Run] | None, None),
    ],
)
"""What readers need of a record, which an older version or another tool may have written."""


def read(path: Path) -> list[Record]:
    """Every record of a results.jsonl.

    Raises BadRecords, naming file and line, if a line is not a record or the file is damaged.
    """
    if not path.is_file():
        raise BadRecords(
            f"{path}: no such file; run `snakemake --cores <n> results/latency.csv` first,"
            " or name another with --results"
        )
    if what := outputs.difference(path):
        raise BadRecords(
            f"{what}; `snakemake --cores <n> results/latency.csv` makes it again (a copy that was"
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


def _parse(path: Path, number: int, line: str) -> Record:
    try:
        known: Any = msgspec.json.decode(line, type=_Record)
    except msgspec.ValidationError as error:
        raise BadRecords(
            f"{path}:{number}: {error}; --results wants a results.jsonl of this project"
        ) from error
    except msgspec.DecodeError as error:
        raise BadRecords(
            f"{path}:{number}: not valid JSON ({error}); make the file again with"
            " `snakemake --cores <n> --force results/latency.csv`, or take the line out"
        ) from error
    if known.latency and not known.runs:
        raise BadRecords(f"{path}:{number}: a latency without runs")
    return Record(path, number, json.loads(line))
