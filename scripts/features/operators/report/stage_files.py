"""Read how a stage ended for each problem of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scripts.matrix.cell import Cell
from scripts.matrix.stage import OUTCOMES, STATUS, Stage
from scripts.matrix.stages import STAGES
from scripts.records import shapes
from scripts.supervise import damage, outcome, outcomes
from scripts.supervise.outcome import Outcome
from scripts.supervise.outcomes import Line


def read(root: Path, stage: Stage, batch: Cell, problems: Sequence[str]) -> dict[str, Line]:
    """Return how a stage ended for the problems of a batch, by their names.

    If the job of the batch failed before it came to a problem, the outcome is that of the job. If
    the file is damaged, all outcomes are `damaged`.
    """
    job = outcome.read_or_damaged(root / stage.path(batch, STATUS))
    path = root / stage.path(batch, OUTCOMES)
    found: dict[str, Line] = {}
    if job.status != outcome.DAMAGED and _is_written(path):
        try:
            found = _whole(stage, path, problems if job.status == outcome.OK else ())
        except (OSError, ValueError) as error:
            job, found = _damaged(job, str(error)), {}
    elif job.status == outcome.OK:
        detail = f"{path} is missing or empty; the next run makes it again"
        job = _damaged(job, detail)
    return {name: found.get(name) or Line(name, job) for name in problems}


def _damaged(job: Outcome, detail: str) -> Outcome:
    return replace(job, status=outcome.DAMAGED, reason=outcome.DAMAGED_FILE, detail=detail)


def _is_written(path: Path) -> bool:
    """Return whether a stage has written outcomes. The file of a failed stage is empty."""
    return path.is_file() and path.stat().st_size > 0


def _whole(stage: Stage, path: Path, wanted: Sequence[str]) -> dict[str, Line]:
    """Return the lines of a file. Raises OSError or ValueError if it is damaged."""
    if what := damage.difference(path):
        raise ValueError(what)
    found = outcomes.read(path)
    if left := [name for name in wanted if name not in found]:
        raise ValueError(f"{path}: no line of {left[0]}; the next run makes it again")
    for line in found.values() if stage.measures else ():
        if what := _problem(stage, line):
            raise ValueError(f"{path}: {line.problem}: {what}; the next run makes it again")
    return found


def _problem(stage: Stage, line: Line) -> str:
    """Return what is wrong with the verification or the timing of a problem, or ""."""
    if "timing" in line.result:
        return shapes.problem(STAGES["time"], line.result["timing"])
    if "verification" not in line.result:
        return ""
    wrong = shapes.problem(stage, line.result)
    return wrong or shapes.contradiction(line.result, line.outcome.status)
