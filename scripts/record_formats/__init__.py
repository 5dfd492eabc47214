"""Formats that other tools read; each module here is one, and `export_records` finds it by name.

A format is a module with

- a docstring, whose first line `--help` shows,
- ``FILE``: the name of what it writes, where it writes a single file,
- ``add_options(group)``: options of its own,
- ``render(export, args)``: the text of the file, or the texts of several by file name.

What a format does not say to its reader it says to the user, with ``export.note``.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any

CELL_KEYS = (
    "cell", "model", "suite", "runtime", "frontend", "target", "test", "dtype", "precision",
    "batch_size", "device", "xla_flags",
)  # fmt: skip
"""What tells one record from another, and what `--only` selects by."""


class BadRecords(Exception):
    """What is wrong with the records, where, and what to do about it."""


@dataclasses.dataclass(frozen=True)
class Run:
    """`iterations` calls timed as one: seconds for all of them, None for what is not known."""

    total_s: float
    iterations: int
    trace_s: float | None = None
    compile_s: float | None = None
    compile_count: float | None = None
    execute_s: float | None = None
    execute_count: float | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """One line of results.jsonl; two lines are two records, whatever stands in them."""

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
        """The latency, which stands only beside a passed verification."""
        return self.data["latency"]

    def __getitem__(self, key: str) -> Any:
        """The value of one of CELL_KEYS; what an older record lacks is None, precision "none"."""
        experiment = self.data["experiment"]
        if key in ("model", "suite"):
            return self.data["model"]["name" if key == "model" else "suite"]
        if key == "cell":
            return "/".join([self["model"], *self.road])
        if key == "precision":
            return experiment.get(key) or "none"
        return experiment.get(key)

    @property
    def road(self) -> list[str]:
        """What the cell is called below its model: frontend and target, or baseline and test."""
        if self.is_iree:
            return [self["frontend"], self["target"]]
        return [self["target"] or self["runtime"], self["test"]]

    @property
    def failure(self) -> str:
        """ "<status>: <detail>" of a cell that was not measured."""
        result = self.data["outcome"]
        return f"{result['status']}: {result['detail'] or result.get('reason') or 'not measured'}"

    @property
    def runs(self) -> list[Run]:
        """The cold run first, then the repetitions; [] for a cell that was not measured.

        Older records have no `runs`: the first call and the repetitions' means stand for them.
        """
        if self.latency is None:
            return []
        if self.data.get("runs"):
            known = {field.name for field in dataclasses.fields(Run)}
            return [
                Run(**{k: v for k, v in run.items() if k in known}) for run in self.data["runs"]
            ]
        first_ms = self.data["run"].get("first_call_ms")
        cold = [] if first_ms is None else [Run(first_ms / 1e3, 1)]
        calls = self.latency.get("iterations", 1)
        return cold + [Run(ms / 1e3 * calls, calls) for ms in self.latency["values_ms"]]

    @property
    def has_cold_run(self) -> bool:
        return bool(self.data.get("runs")) or self.data["run"].get("first_call_ms") is not None

    @property
    def median_ms(self) -> float:
        """Milliseconds a call, the median over the repetitions; only for a measured cell."""
        return statistics.median(self.data["latency"]["values_ms"])


@dataclasses.dataclass
class Export:
    """What there is to write: `records` were selected, `everything` is the whole file."""

    records: list[Record]
    everything: list[Record]
    timestamp: float
    """Seconds since the epoch: when the run ended, one for all of its records."""
    notes: list[str] = dataclasses.field(default_factory=list)

    def note(self, text: str) -> None:
        """Tell the user what the reader of the file will not see."""
        self.notes.append(text)


def problem(data: Any) -> str | None:
    """Why `data` is not a record that a format can be made of, or None."""
    if not isinstance(data, dict):
        return f"a record is a JSON object, this is {type(data).__name__}"
    for part, keys in _REQUIRED.items():
        if not isinstance(data.get(part), dict):
            return f"no {part}"
        for key in keys:
            if key not in data[part]:
                return f"no {part}.{key}"
    if data["experiment"]["test"] not in ("eval", "train"):
        return "experiment.test is neither eval nor train"
    latency = data.get("latency")
    if latency is not None and not _all_positive(latency.get("values_ms") or [None]):
        return "latency.values_ms is not a list of positive numbers"
    for index, run in enumerate(data.get("runs") or []):
        if wrong := _run_problem(run):
            return f"runs[{index}]: {wrong}"
    return None


def distinct(
    records: Iterable[Record],
    key: Callable[[Record], Hashable],
    merged_as: str,
    advice: str = "",
) -> None:
    """Refuse two records that the reader would take for one: it would drop one, or mix them.

    Raises BadRecords with `advice`, or else with the `--only` that tells the two apart.
    """
    seen: dict[Hashable, Record] = {}
    for record in records:
        first = seen.setdefault(key(record), record)
        if first is record:
            continue
        both = f"{first.where} ({first['cell']}) and {record.where} ({record['cell']})"
        differ = [k for k in _TELLING if first[k] != record[k]]
        if not differ:
            raise BadRecords(
                f"{both} are the same cell; are these two runs in one file? Export each by itself"
            )
        choice = " or ".join(
            f"--only '{differ[0]}={as_text(r[differ[0]])}'" for r in (first, record)
        )
        raise BadRecords(f"{both} would be {merged_as}; {advice or f'choose one with {choice}'}")


def named(records: Iterable[Record]) -> str:
    """Cells for a message: a few of them, and how many more."""
    cells = list(dict.fromkeys(record["cell"] for record in records))
    return ", ".join(cells[:5]) + (f" and {len(cells) - 5} more" if len(cells) > 5 else "")


def as_text(value: Any) -> str:
    """How `--only` sees a value: what is not there is the empty text."""
    return "" if value is None else str(value)


def is_number(value: Any) -> bool:
    """Whether JSON readers take this for a number (True and NaN they would not)."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# By what to choose between two records, the plainest first; `cell` follows from the others.
_TELLING = (
    "device", "precision", "dtype", "test", "batch_size", "runtime", "frontend", "target",
    "xla_flags", "suite", "model",
)  # fmt: skip

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
    if not is_number(run.get("total_s")) or run["total_s"] <= 0:
        return "total_s is not a positive number"
    if not isinstance(run.get("iterations"), int) or run["iterations"] < 1:
        return "iterations is not a whole number above 0"
    for field in dataclasses.fields(Run)[2:]:
        if run.get(field.name) is not None and not is_number(run[field.name]):
            return f"{field.name} is neither a number nor null"
    return None
