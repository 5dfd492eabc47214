"""The file `outcomes.jsonl` of a batch's stage: how it ended for each problem, one line per problem.

{"problem": "<name>", "outcome": {…}, "seconds": 0.1, "result": {…}}
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from scripts.core import atomic
from scripts.supervise import outcome
from scripts.supervise.job import Job
from scripts.supervise.outcome import Outcome


@dataclass(frozen=True)
class Line:
    """The end of a stage for one problem. `seconds`: time that it took; None if it did not end
    by itself. `result`: JSON values that depend on the stage."""

    problem: str
    outcome: Outcome
    seconds: float | None = None
    result: Mapping[str, Any] = field(default_factory=dict)


def write(path: Path, lines: Iterable[Line]) -> None:
    """Write the lines, in order."""
    text = "".join(json.dumps(dataclasses.asdict(line), allow_nan=False) + "\n" for line in lines)
    atomic.write_text(path, text)


def read(path: str | Path) -> dict[str, Line]:
    """Read the lines, by the name of the problem. Raises OSError, or ValueError naming the file."""
    lines = {}
    for number, text in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        try:
            line = msgspec.json.decode(text, type=Line)
        except (msgspec.MsgspecError, ValueError) as error:
            raise ValueError(f"{path}:{number}: not the outcome of a problem ({error})") from error
        lines[line.problem] = line
    return lines


def read_if_whole(path: str | Path) -> dict[str, Line]:
    """Read the lines; none if the file does not exist or is not whole. The status file of the stage
    says whether it is whole."""
    try:
        return read(path)
    except (OSError, ValueError):
        return {}


def cell_of(job: Job, name: str) -> str:
    """Return the name of a problem in a cell of a stage, for its outcome."""
    return f"{job.cell}: {name}"


def stands(ended: Outcome, job: Job) -> bool:
    """Return whether the outcome of an unchanged problem in an earlier run is still valid: it is ok,
    or a failure under the same code and limits which says something about the problem."""
    if ended.status == outcome.OK:
        return True
    limits = {"timeout": job.timeout_s, "oom": job.memory_mb}
    has_moved = ended.limit not in (None, limits.get(ended.status))
    return ended.fingerprint == job.fingerprint and not has_moved and not ended.is_passing
