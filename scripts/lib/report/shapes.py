"""Check that the JSON file of a stage has the types and values that the stage writes.

The types are those that the code declares: a measurement is timing.measurement.Measurement. In a
report or a signature, only the values that a record contains (columns.py) are checked. The checks
are needed because an older version may have written the file, or it may have been edited.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import msgspec

from scripts.lib.config.stage import Stage
from scripts.lib.report import fields
from scripts.lib.report.columns import FIELDS
from scripts.lib.supervision import outcome
from scripts.lib.supervision.tuning import report
from scripts.lib.timing.measurement import TIMERS, Measurement
from scripts.lib.timing.rounds import NOT_TIMED
from scripts.lib.verification import codes

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
    if stage.name == "tune":
        return _of_tuning(data)
    if stage.name in _SECTIONS:
        return _of_section(_SECTIONS[stage.name], data)
    return _of_measurement(data)


def contradiction(stage: Stage, measured: Mapping[str, Any], status: str) -> str:
    """Return why a measurement contradicts the status of its stage, or "" if it does not."""
    left_out = NOT_TIMED in measured
    if left_out and not stage.second_round_of:
        return f"a first round with {NOT_TIMED}"
    if status == outcome.OK:
        return "" if left_out or measured.get("latency") else "no latency of a stage that is ok"
    return f"a latency of a stage that ended as {status}" if measured.get("latency") else ""


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


def _of_tuning(data: Mapping[str, Any]) -> str:
    try:
        report.read(data)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def _of_measurement(data: Mapping[str, Any]) -> str:
    if NOT_TIMED in data:
        return "" if isinstance(data[NOT_TIMED], str) else f"{NOT_TIMED} is not text"
    try:
        found = msgspec.convert(data, Measurement)
    except msgspec.ValidationError as error:
        return str(error)
    return next((what for what, right in _rules(found) if not right), "")


def _rules(found: Measurement) -> Iterator[tuple[str, bool]]:
    """Yield (error message, whether the rule is met) for the rules that types cannot express."""
    of, latency = found.verification, found.latency
    yield f"verification.code is {of.code!r}", of.code in codes.CODES
    yield f"timer is {found.timer!r}", found.timer in (None, *TIMERS)
    errors = (of.max_abs_error, of.rmse_vs_fp64, of.golden_rmse_vs_fp64, of.tol)
    yield "an error of the verification is below 0", _none_below(0, *errors)
    yield "verification.noise is not above 0", of.noise is None or of.noise > 0
    yield "greedy tokens are below 0", _none_below(0, of.greedy_tokens)
    yield "greedy tokens are compared in no step", _none_below(1, of.greedy_expected)
    yield "training steps are below 0", _none_below(0, of.train_steps)
    yield "training is compared in no step", _none_below(1, of.train_expected)
    numbers = {len(losses) for losses in (of.losses, of.golden_losses) if losses is not None}
    yield "there are not as many losses as training steps", numbers <= {of.train_expected}
    if latency is None:
        return
    yield "a latency without `host`", found.host is not None
    yield "latency.values_ms has a value that is not above 0", min(latency.values_ms) > 0
    yield "latency.iterations is not above 0", latency.iterations > 0
    yield "a run without time or calls", all(r.total_s > 0 < r.iterations for r in found.runs)
    spent = ((r.compile_s, r.compile_count, r.execute_s, r.execute_count) for r in found.runs)
    yield "a run with an account below 0", _none_below(0, *itertools.chain(*spent))
    if found.calibration is not None:
        taken = (found.calibration.compute_s, found.calibration.memory_s)
        yield "calibration has a time that is not above 0", all(s > 0 for one in taken for s in one)
        yield "calibration has more times of one kernel", len(taken[0]) == len(taken[1])


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
