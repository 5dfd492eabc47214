"""The report of a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


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
