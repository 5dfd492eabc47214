"""Ways to compile that are tried, the attempts of remedies and the candidates of tuning: as JSON for their jobs, as steps of a
job, and with their outcomes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from scripts.core.requests import StageRequest
from scripts.matrix.compile_tables import Attempt, NamedVariant
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
    share of the modules that stay when slow ones leave (race.Race).
    """

    candidates: tuple[Candidate, ...]
    properties: dict[str, tuple[str, ...]]
    budget_s: float
    keep: float


def to_text(values: object) -> str:
    """One line of JSON. Equal values give equal text."""
    return json.dumps(msgspec.to_builtins(values), separators=(",", ":"))


def attempts_of(text: str) -> tuple[Attempt, ...]:
    """The attempts that `to_text` has written. Raises ValueError."""
    return msgspec.json.decode(text, type=tuple[Attempt, ...])


def search_of(text: str) -> Search:
    """The search that `to_text` has written. Raises ValueError."""
    return msgspec.json.decode(text, type=Search)


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
