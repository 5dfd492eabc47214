"""The candidates of a search while it runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from scripts.core import atomic
from scripts.features.variants.search.candidates import Candidate
from scripts.features.variants.search.report import Line, Timing
from scripts.supervise import outcome
from scripts.supervise.diagnose import Diagnosis
from scripts.supervise.outcome import Outcome

MODULE, REPORT = "module.vmfb", "report.json"

NOT_APPLICABLE, OUT_OF_BUDGET, NO_CANDIDATE = "not-applicable", "budget", "no-candidate"
"""Reasons of candidates that are not tried, and of a job of which no candidate has worked."""


@dataclass
class Tried:
    """A candidate and what has become of it. `spec`: the text of its tuning spec."""

    candidate: Candidate
    folder: Path
    step: str = "compile"
    ended: Outcome | None = None
    digest: str = ""
    same_as: str = ""
    timing: Timing | None = None
    spec: str = ""

    @property
    def module(self) -> Path:
        return self.folder / MODULE

    @property
    def is_ok(self) -> bool:
        return self.ended is not None and self.ended.status == outcome.OK

    def line(self) -> Line:
        ended, of = self.ended, self.candidate
        assert ended is not None
        report = self.folder / REPORT
        return Line(
            of.name, of.frontend, of.opt_level, of.flags, of.configured,
            ended.status, self.step, ended.reason, ended.detail, ended.log, self.same_as, self.timing,
            atomic.read_json(report) if report.is_file() and report.stat().st_size else {}, self.spec,
        )  # fmt: skip


def why_none(tried: Collection[Tried]) -> Diagnosis:
    """Why no candidate has passed: the first configured one, or else the first one that was tried."""
    ended = [one for one in tried if one.ended and one.ended.status != outcome.SKIPPED]
    first = next((one for one in ended if one.candidate.configured), next(iter(ended), None))
    if first is None or first.ended is None:
        said = next((one.ended.detail for one in tried if one.ended), "there is none")
        return Diagnosis("error", NO_CANDIDATE, f"no candidate could be tried: {said}")
    name, of = first.candidate.name, first.ended
    if of.status == outcome.UNAVAILABLE:
        return Diagnosis(of.status, of.reason, of.detail)
    return Diagnosis(of.status, of.reason, f"no candidate has passed; {name}: {of.detail}")


def said(one: Tried) -> str:
    """A candidate and its outcome, for the log."""
    ended = one.ended
    assert ended is not None
    why = "" if ended.status == outcome.OK else f" ({ended.reason}): {ended.detail}"
    time = f": {one.timing.ms:.4g} ms" if one.timing else ""
    same = f", the module of {one.same_as}" if one.same_as else ""
    return f"{one.candidate.name}: {ended.status}{why}{same}{time}"
