"""Check that the JSON file of a stage has the types and values that the stage writes.

The types are those that the code declares: timing.measurement.Verified, timing.group.GroupTiming. In a
report or a signature, only the values that a record contains (columns.py) are checked. The checks
are needed because an older version may have written the file, or it may have been edited.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping
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
        json.dumps(data, allow_nan=False)
    except ValueError:
        return f"{next(_not_finite(data))} is not a finite number"
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
    known, validator = _section(name)
    said = {key: data[key] for key in known & data.keys()}
    if name == "reference":  # a record takes only the non-empty values of a signature
        said = {key: value for key, value in said.items() if value}
    for error in validator.iter_errors(said):
        return f"{'.'.join(map(str, error.absolute_path))}: {error.message}"
    return ""


@functools.cache
def _section(name: str) -> tuple[frozenset[str], jsonschema.Draft202012Validator]:
    """Return the keys that a section declares, and its validator."""
    schema = fields.schema(FIELDS)["properties"][name]
    return frozenset(schema["properties"]), jsonschema.Draft202012Validator(schema)


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
    return next((what for what, right in _rules(found) if not right), "")


def _rules(found: Verified) -> Iterator[tuple[str, bool]]:
    """Yield (error message, whether the rule is met) for the rules that types cannot express."""
    of = found.verification
    yield f"verification.code is {of.code!r}", of.code in codes.CODES
    errors = (of.max_abs_error, of.rmse_vs_fp64, of.golden_rmse_vs_fp64, of.tol)
    yield "an error of the verification is below 0", _none_below(0, *errors)
    yield "verification.noise is not above 0", of.noise is None or of.noise > 0
    yield "greedy tokens are below 0", _none_below(0, of.greedy_tokens)
    yield "greedy tokens are compared in no step", _none_below(1, of.greedy_expected)
    yield "training steps are below 0", _none_below(0, of.train_steps)
    yield "training is compared in no step", _none_below(1, of.train_expected)
    numbers = {len(losses) for losses in (of.losses, of.golden_losses) if losses is not None}
    yield "there are not as many losses as training steps", numbers <= {of.train_expected}
    yield "a run without time or calls", all(r.total_s > 0 < r.iterations for r in found.runs)
    spent = ((r.compile_s, r.compile_count, r.execute_s, r.execute_count) for r in found.runs)
    yield "a run with an account below 0", _none_below(0, *itertools.chain(*spent))


def _none_below(least: float, *values: float | None) -> bool:
    return all(value is None or value >= least for value in values)


def _not_finite(value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of numbers that are NaN or infinite, which Python's JSON reader accepts."""
    if isinstance(value, float) and not math.isfinite(value):
        yield path
    pairs: Any = ()
    if isinstance(value, Mapping):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    for key, inner in pairs:
        yield from _not_finite(inner, f"{path}.{key}" if path else str(key))
