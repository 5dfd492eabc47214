"""Reads what the stages of a row have left: outcomes, reports and measurements, and what is damaged of them.

A JSON file must have the types that the code declares (verify.verification.Verified, timing.group_timing.GroupTiming), and values that
a record contains follow its schema (columns.py): an older version may have written the file, or it may have been edited.
The section `latency` of a record is what the timing of its group says about the row, without other rows.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from scripts.config.cell import Cell, Kind
from scripts.config.stages import LAST, STAGES, STATUS, TIMING, VERIFICATION, Stage, status_path
from scripts.core import atomic
from scripts.measure.timing.group_timing import GroupTiming
from scripts.measure.verify import verification
from scripts.measure.verify.verification import Verified
from scripts.results import columns, latency_section
from scripts.results.columns import FIELDS
from scripts.supervise import outcome
from scripts.supervise.group import member_outcome
from scripts.supervise.outcome import Outcome, Usage

_ALSO_READ = {"reference": ("signature.json",), "gradients": ("signature.json",)}
"""Files of a stage that records are made from, and that are not inputs of the aggregation's rule."""

_SECTIONS = {name: name for name in ("export", "compile", "remedy", "reference")} | {
    "gradients": "reference"
}
"""Stages whose JSON is a section of a record, or has its form, with the name of the section."""


def ended(root: Path, stage: Stage, cell: Cell) -> Outcome:
    """The outcome of a stage of a cell; `damaged` if a file that the record needs is damaged."""
    recorded = outcome.read_or_damaged(root / stage.path(cell, STATUS))
    if recorded.status != outcome.DAMAGED:
        for file in (*stage.aggregated, *_ALSO_READ.get(stage.name, ())):
            if file != STATUS and (what := _damage(root, stage, cell, file, recorded)):
                return _damaged(recorded, what)
    return recorded


def _damaged(ended_: Outcome, what: str) -> Outcome:
    return replace(ended_, status=outcome.DAMAGED, reason=outcome.DAMAGED_FILE, detail=what)


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


def timed(root: Path, stage: Stage, group: Cell, member: str) -> tuple[Outcome, GroupTiming | None]:
    """The outcome of the timing of a member of a group, and that of the group; None if it has no timing."""
    files = (root / stage.path(group, name) for name in (STATUS, TIMING))
    written = tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in files)
    ended_, timing = _group(root, stage, group, written)
    if timing is None:
        return ended_, None
    own = timing.members.get(member)
    if own is None:
        what = f"{root / stage.path(group, TIMING)} lacks {member}; the next run makes it again"
        return _damaged(ended_, what), None
    return ended_ if own.status == outcome.OK else member_outcome(member, own, ended_), timing


@functools.lru_cache(maxsize=4)
def _group(
    root: Path, stage: Stage, group: Cell, written: tuple[int, ...]
) -> tuple[Outcome, GroupTiming | None]:
    """The outcome of the timing of a group, and the timing. The rows of a group are read one after the other. `written`: when its
    files were written."""
    of_group = ended(root, stage, group)
    values = read_if_whole(root, stage, group, TIMING) if of_group.status == outcome.OK else {}
    return of_group, msgspec.convert(values, GroupTiming) if values else None


def anchor(root: Path, timing: GroupTiming | None) -> str | None:
    """The anchor of a group with its version (latency_section.anchor_text); None if it has none."""
    if timing is None or not timing.anchor:
        return None
    cell = Cell.parse(timing.anchor, Kind.BASELINE)
    measured = read_if_whole(root, STAGES[LAST[Kind.BASELINE]], cell, VERIFICATION)
    return latency_section.anchor_text(timing.anchor, measured.get("versions", {}))


def read_if_whole(root: Path, stage: Stage, cell: Cell | str, file: str) -> dict:
    """The JSON of a file of a stage; {} if it is missing, empty or damaged. The damage is in the outcome (`ended`)."""
    try:
        return _read(root / stage.path(cell, file), stage)
    except (OSError, ValueError):
        return {}


def usage(status_path: Path) -> Usage | None:
    """The usage of a stage; None if it is not known."""
    try:
        return outcome.read_usage(status_path)
    except (OSError, ValueError):
        return None


def is_left_out(path: Path) -> bool:
    """Whether a file that rows do without is damaged. Then a note says so, and its stage is marked so that the next run
    repeats it."""
    if what := outcome.difference(path):
        print(f"note: {what}", file=sys.stderr)
        outcome.condemn(path.with_name(STATUS), what)
    return bool(what)


def _damage(root: Path, stage: Stage, cell: Cell, file: str, recorded: Outcome) -> str:
    """What is wrong with a JSON file of a stage, or "". The file of a stage that succeeded must not be
    empty."""
    path = root / stage.path(cell, file)
    try:
        if what := outcome.difference(path):
            return what
        if not (data := _read(path, stage)):
            empty = f"{path} is empty; the next run makes it again"
            return empty if recorded.status == outcome.OK else ""
        if file == VERIFICATION and (what := contradiction(data, recorded.status)):
            return f"{path}: {what}; the next run makes it again"
        return ""
    except (OSError, ValueError) as error:
        return str(error)


def _read(path: Path, stage: Stage) -> dict:
    """The JSON of an artifact; {} for the empty file of a failed stage. Raises OSError or ValueError, naming
    the file, if it is damaged or does not have the shape that the stage writes."""
    if not path.stat().st_size:
        return {}
    data = atomic.read_json(path)
    if data != {} and (what := problem(stage, data)):
        raise ValueError(f"{path}: {what}; the next run makes it again")
    return data


def problem(stage: Stage, data: Any) -> str:
    """Return what is wrong with the JSON of a stage, or "" if nothing is."""
    if not isinstance(data, Mapping):
        return "not a JSON object"
    try:
        json.dumps(data, allow_nan=False)  # Python's JSON reader accepts NaN and infinities
    except ValueError as error:
        return str(error)
    if stage.checked_by:
        return importlib.import_module(stage.checked_by).problem(data)
    if stage.name in _SECTIONS:
        return _of_section(_SECTIONS[stage.name], data)
    return _of_timing(data) if stage.kind is Kind.GROUP else _of_verification(data)


def contradiction(verified: Mapping[str, Any], status: str) -> str:
    """Return why the file of a verification contradicts the status of its stage, or "" if it does not."""
    code = verified["verification"]["code"]
    if (status == outcome.OK) == (code == verification.PASS):
        return ""
    return f"verification.code {code} of a stage that ended as {status}"


def _of_section(name: str, data: Mapping[str, Any]) -> str:
    known = columns.names(FIELDS, name)
    said = {key: data[key] for key in known if key in data}
    if name == "reference":  # a record takes only the non-empty values of a signature
        said = {key: value for key, value in said.items() if value}
    return _checker(name)(said)


@functools.cache
def _checker(section: str) -> Callable[[Any], str]:
    return columns.checker(FIELDS, section)


def _of_timing(data: Mapping[str, Any]) -> str:
    try:
        timing = msgspec.convert(data, GroupTiming)
    except msgspec.ValidationError as error:
        return str(error)
    for cell, member in timing.members.items():
        if member.status == outcome.OK and not member.values_ms:
            return f"members.{cell} is ok and has no latency"
        if member.values_ms and min(member.values_ms) <= 0:
            return f"members.{cell}.values_ms has a value that is not above 0"
        if member.part >= len(timing.parts):
            return f"members.{cell}.part is {member.part}, and there are {len(timing.parts)} parts"
    return ""


def _of_verification(data: Mapping[str, Any]) -> str:
    try:
        verified = msgspec.convert(data, Verified)
    except msgspec.ValidationError as error:
        return str(error)
    # With the values that an older version left out.
    runs = [dataclasses.asdict(run) for run in verified.runs] or None
    for section, value in (("verification", data["verification"]), ("runs", runs)):
        if what := _checker(section)(value):
            return f"{section}: {what}"
    return ""
