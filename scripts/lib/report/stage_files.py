"""Reads what the stages of a row have left: outcomes, reports and measurements, and what is damaged of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from scripts.lib.config.cell import Cell
from scripts.lib.config.stage import MEASUREMENT, STATUS, Stage
from scripts.lib.config.stages import status_path
from scripts.lib.core import atomic
from scripts.lib.report import shapes
from scripts.lib.supervision import damage, outcome
from scripts.lib.supervision.outcome import Outcome, Usage

_ALSO_READ = {"reference": ("signature.json",), "gradients": ("signature.json",)}
"""Files of a stage that records are made from, and that are not inputs of the aggregation's rule."""


def ended(root: Path, stage: Stage, of: Cell) -> Outcome:
    """The outcome of a stage of a cell; `damaged` if a file that the record needs is damaged."""
    found = outcome.read_or_damaged(root / stage.path(of, STATUS))
    if found.status != outcome.DAMAGED:
        for file in (*stage.aggregated, *_ALSO_READ.get(stage.name, ())):
            if file != STATUS and (what := _damage(root, stage, of, file, found)):
                return replace(
                    found, status=outcome.DAMAGED, reason=outcome.DAMAGED_FILE, detail=what
                )
    return found


def deciding(root: Path, outcomes: list[Outcome]) -> Outcome:
    """The first stage that failed itself, else the last one.

    If a stage outside the chain (an environment) blocked it, the outcome of that stage.
    """
    for result in outcomes:
        if result.status == outcome.SKIPPED and not result.blocked_by:
            return result
    for result in outcomes:
        if result.status == outcome.OK:
            continue
        if result.status == outcome.SKIPPED and result.blocked_by:
            stage, _, blocking = result.blocked_by.partition(" ")
            return outcome.read_or_damaged(root / status_path(stage, blocking))
        return result
    return outcomes[-1]


def measured(root: Path, stage: Stage, of: Cell) -> dict:
    """What a stage of a cell has measured; {} if that file is missing or damaged."""
    return read_if_whole(root, stage, of, MEASUREMENT)


def read_if_whole(root: Path, stage: Stage, of: Cell | str, file: str) -> dict:
    """The JSON of a file of a stage; {} if it is missing, empty or damaged. The damage is in the outcome (`ended`)."""
    try:
        return _read(root / stage.path(of, file), stage)
    except (OSError, ValueError):
        return {}


def usage(status_path: Path) -> Usage | None:
    """The usage of a stage; None if it is not known."""
    try:
        return outcome.read_usage(status_path)
    except (OSError, ValueError):
        return None


def _damage(root: Path, stage: Stage, of: Cell, file: str, recorded: Outcome) -> str:
    """What is wrong with a JSON file of a stage, or "". The file of a stage that succeeded must not be
    empty."""
    path = root / stage.path(of, file)
    try:
        if what := damage.difference(path):
            return what
        if not (found := _read(path, stage)):
            empty = f"{path} is empty; the next run makes it again"
            return empty if recorded.status == outcome.OK else ""
        if file == MEASUREMENT and (what := shapes.contradiction(stage, found, recorded.status)):
            return f"{path}: {what}; the next run makes it again"
        return ""
    except (OSError, ValueError) as error:
        return str(error)


def _read(path: Path, stage: Stage) -> dict:
    """The JSON of an artifact; {} for the empty file of a failed stage. Raises OSError or ValueError, naming
    the file, if it is damaged or does not have the shape that the stage writes."""
    if not path.stat().st_size:
        return {}
    found = atomic.read_json(path)
    if found != {} and (what := shapes.problem(stage, found)):
        raise ValueError(f"{path}: {what}; the next run makes it again")
    return found
