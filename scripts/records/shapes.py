"""Check that the JSON file of a stage has the types and values that the stage writes.

The types are those that the code declares: timing.measurement.Verified, timing.group.GroupTiming. Values
that a record contains follow its schema (columns.py). The checks are needed because an older version
may have written the file, or it may have been edited.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
from collections.abc import Mapping
from typing import Any

import jsonschema
import msgspec

from scripts.matrix.cell import Kind
from scripts.matrix.stage import Stage
from scripts.records import fields
from scripts.records.columns import FIELDS
from scripts.supervise import outcome
from scripts.timing.group_timing import GroupTiming
from scripts.timing.measurement import Verified
from scripts.verify import codes

_SECTIONS = {name: name for name in ("export", "compile", "remedy", "reference")} | {
    "gradients": "reference"
}
"""Stages whose JSON is a section of a record, or has its form, with the name of the section."""


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
    if (status == outcome.OK) == (code == codes.PASS):
        return ""
    return f"verification.code {code} of a stage that ended as {status}"


def _of_section(name: str, data: Mapping[str, Any]) -> str:
    known = _validator(name).schema["properties"].keys()
    said = {key: data[key] for key in known & data.keys()}
    if name == "reference":  # a record takes only the non-empty values of a signature
        said = {key: value for key, value in said.items() if value}
    return _violation(name, said)


def _violation(section: str, value: Any, *path: str) -> str:
    """Return how a value violates the schema of a section, or "" if it does not. `path`: of the section, for the message."""
    for error in _validator(section).iter_errors(value):
        return f"{'.'.join(map(str, (*path, *error.absolute_path)))}: {error.message}"
    return ""


@functools.cache
def _validator(section: str) -> Any:
    """Return the validator of a section of a record."""
    return jsonschema.Draft202012Validator(fields.schema(FIELDS)["properties"][section])


def _of_timing(data: Mapping[str, Any]) -> str:
    try:
        found = msgspec.convert(data, GroupTiming)
    except msgspec.ValidationError as error:
        return str(error)
    for cell, one in found.members.items():
        if one.status == outcome.OK and not one.values_ms:
            return f"members.{cell} is ok and has no latency"
        if one.values_ms and min(one.values_ms) <= 0:
            return f"members.{cell}.values_ms has a value that is not above 0"
        if one.part >= len(found.parts):
            return f"members.{cell}.part is {one.part}, and there are {len(found.parts)} parts"
    return ""


def _of_verification(data: Mapping[str, Any]) -> str:
    try:
        found = msgspec.convert(data, Verified)
    except msgspec.ValidationError as error:
        return str(error)
    # With the values that an older version left out.
    runs = list(map(dataclasses.asdict, found.runs)) or None
    return _violation("verification", data["verification"], "verification") or _violation(
        "runs", runs, "runs"
    )
