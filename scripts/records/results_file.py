"""Reads results.jsonl and checks every record. Errors name the file and the line."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

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


def problem(data: Any) -> str | None:
    """Why `data` cannot be used as a record, or None."""
    if not isinstance(data, dict):
        return f"a record is a JSON object, this is {type(data).__name__}"
    for part, keys in _REQUIRED.items():
        if not isinstance(data.get(part), dict):
            return f"no {part}"
        for key in keys:
            if key not in data[part]:
                return f"no {part}.{key}"
    if data["experiment"]["test"] not in TESTS:
        return f"experiment.test is neither {' nor '.join(TESTS)}"
    if latency := data.get("latency"):
        if not _all_positive([latency.get("ms")]):
            return "latency.ms is not a positive number"
        if not _all_positive(latency.get("values_ms") or [None]):
            return "latency.values_ms is not a list of positive numbers"
        if not data.get("runs"):
            return "a latency without runs"
    for index, run in enumerate(data.get("runs") or []):
        if wrong := _run_problem(run):
            return f"runs[{index}]: {wrong}"
    return None


def is_number(value: Any) -> bool:
    """Whether JSON readers accept this as a number (not True, not NaN)."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


_REQUIRED = {
    "model": ("name", "suite"),
    "experiment": ("runtime", "frontend", "target", "test", "dtype", "batch_size", "device"),
    "outcome": ("status", "detail"),
    "verification": ("code",),
    "run": (),
}


def _all_positive(values: Any) -> bool:
    return isinstance(values, list) and all(is_number(v) and v > 0 for v in values)


def _run_problem(run: Any) -> str | None:
    if not isinstance(run, dict):
        return "not an object"
    if unknown := run.keys() - {field.name for field in dataclasses.fields(Run)}:
        return f"{', '.join(sorted(unknown))} is not a value of a run"
    if not is_number(run.get("total_s")) or run["total_s"] <= 0:
        return "total_s is not a positive number"
    if not isinstance(run.get("iterations"), int) or run["iterations"] < 1:
        return "iterations is not a whole number above 0"
    for field in dataclasses.fields(Run)[2:]:
        if run.get(field.name) is not None and not is_number(run[field.name]):
            return f"{field.name} is neither a number nor null"
    return None


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
        data = json.loads(line, parse_constant=_refuse_constant)
    except ValueError as error:
        raise BadRecords(
            f"{path}:{number}: not valid JSON ({error}); make the file again with"
            " `snakemake --cores <n> --force results/latency.csv`, or take the line out"
        ) from error
    if wrong := problem(data):
        raise BadRecords(
            f"{path}:{number}: {wrong}; --results wants a results.jsonl of this project"
        )
    return Record(path, number, data)


def _refuse_constant(name: str) -> NoReturn:
    """Raise an error for NaN and infinities, which are not JSON."""
    raise ValueError(f"{name} is not a number in JSON")
