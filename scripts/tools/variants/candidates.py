"""Ways to compile that are tried, the attempts of remedies and the candidates of tuning: as JSON for their jobs, as steps of a
job, with their outcomes, and in the report of a search."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from scripts.config.compile_tables import Attempt, NamedVariant
from scripts.core.requests import StageRequest
from scripts.supervise import outcome
from scripts.supervise.job import Job
from scripts.supervise.outcome import Outcome


class Candidate(NamedVariant, frozen=True):
    """What tuning tries. `configured`: the target has it without tuning. `needs`, `avoid`: properties that the program must
    have all of, and none of. The other fields are those of Attempt."""

    target: dict[str, Any] = msgspec.field(default_factory=dict)
    program: str = ""
    export: str = ""
    configured: bool = False
    needs: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    hang: str = ""


class Search(msgspec.Struct, frozen=True):
    """What tuning searches: candidates in the order in which they are tried, within `budget_s` seconds.

    `properties`: the regular expressions of which one is found in a line of a program with that property. `keep`: the
    share of the modules that stay when slow ones leave (tune_iree.Race).
    """

    candidates: tuple[Candidate, ...]
    properties: dict[str, tuple[str, ...]]
    budget_s: float
    keep: float


AnyWay = TypeVar("AnyWay", Attempt, Candidate)


def step(
    job: Job,
    way: Attempt | Candidate,
    folder: Path,
    request: StageRequest,
    artifacts: Sequence[Path],
    **changes: Any,
) -> Job:
    """The job of a step of one way, as a part of a job that tries several: its files are in `folder`. `artifacts`: what it makes."""
    values: dict[str, Any] = {
        "command": request.command(folder),
        "request": request,
        "status_path": folder / outcome.STATUS,
        "log_path": folder / job.log_path.name,
        "artifacts": artifacts,
        "upstream": [Path(way.export)],
    }
    return dataclasses.replace(job, **(values | changes))


@dataclass
class TriedWay(Generic[AnyWay]):
    """A way that is tried, and the outcome (None: not yet)."""

    way: AnyWay
    ended: Outcome | None = None

    @property
    def name(self) -> str:
        return self.way.name

    @property
    def is_ok(self) -> bool:
        return self.ended is not None and self.ended.status == outcome.OK

    def said(self) -> str:
        """What the log says about it."""
        assert self.ended is not None
        why = "" if self.is_ok else f" ({self.ended.reason}): {self.ended.detail}"
        return f"{self.name}: {self.ended.status}{why}"


class Timing(msgspec.Struct, frozen=True):
    """The latency of a candidate in the generations that count (ratios.counted), and how many times faster it was than the
    fastest configured one in the same ones, with the ends of their 99 % intervals (None for too few generations)."""

    generations: int
    ms: float
    low_ms: float | None = None
    high_ms: float | None = None
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None


class Line(msgspec.Struct, frozen=True):
    """A candidate in the report. `step`: the one that has decided its outcome, `compile`, `verify` or `time`.
    `same_as`: the candidate with the same module ("": none before it). `timing`: None if it was not timed. `compile`: the
    report of its compilation ({}: there is none)."""

    name: str
    frontend: str
    opt_level: str
    flags: tuple[str, ...]
    configured: bool
    status: str
    step: str
    reason: str
    detail: str
    log: str
    same_as: str
    timing: Timing | None
    compile: dict[str, Any]


NOT_APPLICABLE, OUT_OF_BUDGET = "not-applicable", "budget"
"""Reasons of candidates that are not tried."""


class Report(msgspec.Struct, frozen=True):
    """The report of a job. `compile_s`: seconds of all compilations divided by how many ran at a time;
    `measure_s`: of all verifications and turns. `tuned` and `default`: the names of the
    fastest candidate, and of the fastest configured one (None: no such candidate has passed)."""

    budget_s: float
    compile_s: float
    measure_s: float
    tuned: str | None
    default: str | None
    candidates: tuple[Line, ...]

    def line_of(self, name: str | None) -> Line | None:
        """Return the candidate of that name; None for None."""
        return next((line for line in self.candidates if line.name == name), None)


def read(values: Mapping[str, Any]) -> Report:
    """Return the report in the values of its file. Raises msgspec.ValidationError, a ValueError."""
    return msgspec.convert(values, Report)


def problem(values: Mapping[str, Any]) -> str:
    """Return what is wrong with the values of such a file; "" if nothing is."""
    try:
        read(values)
    except msgspec.ValidationError as error:
        return str(error)
    return ""
