"""How far every IREE cell came, and why it stopped there, from the rows of results.jsonl."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scripts.matrix import stages
from scripts.matrix.cell import Kind
from scripts.matrix.training import TRAIN
from scripts.records import remedied
from scripts.supervise import outcome

STAGES = (
    "reference",
    "gradients",
    *[stage.name for stage in stages.before(stages.LAST[Kind.IREE])][1:],
    "time",
)
"""The chain of an IREE cell, in order; only that of a training step has gradients."""
NOTHING = "nothing"
VERIFIED = "verified"

ENDINGS = {
    VERIFIED: "verified",
    "no-device": "compiled, no device",
    "wrong": "wrong result",
    "undecided": "undecided",
    "time": "verified, not timed",
    "verify": "failed at verify",
    "compile": "failed at compile",
    "export": "failed at export",
    "gradients": "failed at gradients",
    "reference": "failed at reference",
    "env": "no environment",
    "skipped": "skipped",
}
"""How a cell can end, and the heading of the count. Every cell is counted as exactly one."""


@dataclass(frozen=True)
class Cell:
    """One IREE cell. `reached` is the last stage that succeeded (or `verified`, or `nothing`).

    `stopped_at`, `status`, `reason` and `detail` are those of the stage that failed; for a
    verified cell `stopped_at`, `reason` and `detail` are empty. `stopped_at` is `env` if the
    environment of a stage could not be made. `rewrites` lists what the exporter changed. `remedy` is
    what has compiled the cell where what was asked for did not compile, and `frontend_used` the
    frontend of the program that was compiled. If that is another one than `frontend`, the cell has
    failed at compile. `first_error` is the reason of the failure that the remedy has made good.
    """

    suite: str
    model: str
    frontend: str
    target: str
    reached: str
    stopped_at: str
    status: str
    reason: str
    detail: str
    verified: bool
    rewrites: tuple[str, ...]
    remedy: str = ""
    frontend_used: str = ""
    first_error: str = ""

    @property
    def ending(self) -> str:
        """How the cell ended: a key of ENDINGS."""
        if self.verified:
            return VERIFIED
        if self.status == outcome.SKIPPED:
            return "skipped"
        if self.status == outcome.UNAVAILABLE and self.stopped_at == "verify":
            return "no-device"
        special = {"wrong-result": "wrong", "nondeterministic-eager": "undecided"}
        return special.get(self.reason, self.stopped_at)

    @property
    def mark(self) -> str:
        """The cell in a word or two, with a star if the program was rewritten, and a dagger if a remedy has
        compiled it."""
        words = {
            VERIFIED: "✓",
            "no-device": "compiled",
            "wrong": "✗ wrong",
            "undecided": "undecided",
            "skipped": "skipped",
        }
        status = "" if self.status == "error" else f" {self.status}"
        shown = words.get(self.ending, f"✗ {self.stopped_at}{status}")
        return shown + ("*" if self.rewrites else "") + ("†" if self.remedy else "")


FIELDS = tuple(field.name for field in dataclasses.fields(Cell))


def iree_cells(records: Iterable[Mapping[str, Any]]) -> list[Cell]:
    """The IREE cells among the records, in their order."""
    records = list(records)
    referenced = {_model_of(record) for record in records if _is_past_reference(record)}
    return [
        _cell(record, _model_of(record) in referenced)
        for record in records
        if record["experiment"]["runtime"] == "iree"
    ]


def baseline_mark(record: Mapping[str, Any]) -> str:
    """A baseline's record in a few words: a check mark, or the reason why it is not verified."""
    result = record["outcome"]
    if record["latency"]:
        return "✓"
    if result["status"] == outcome.SKIPPED:
        return "skipped"
    if result["status"] == outcome.UNAVAILABLE:
        return "no device"
    at = result["stage"]
    stage = "" if at == stages.LAST[Kind.BASELINE] else f"{at}: "
    return f"✗ {stage}{result['reason']}"


def readable(detail: str) -> str:
    """A detail on one line, without absolute folders, which differ between machines."""
    return _ABSOLUTE.sub("…/", " ".join(detail.split()))


def kind_of(detail: str) -> str:
    """A detail without its numbers, types and source line: equal for details of the same kind.

    Two dispatches that both need too much shared memory differ in their numbers and in the
    source line that is quoted in brackets at the end. They share a row of the report.
    """
    kind = readable(detail)
    for pattern, instead in _PARTICULARS:
        kind = pattern.sub(instead, kind)
    return kind


# Two folders or more: a single one, such as "/usr", is the same on every machine.
_ABSOLUTE = re.compile(r"(?<![\w./:>-])/(?:[^\s/'\"`:;,()\[\]<>|]+/){2,}")
_PARTICULARS = (
    (re.compile(r" \[\S+:\d+: .*$"), ""),  # diagnose.py's source line
    (re.compile(r"<[^<>]*>"), "<>"),
    (re.compile(r"[\w$]*dispatch_\d\w*"), "dispatch"),
    (re.compile(r"(?<![A-Za-z_])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?:x\d+)*"), "N"),  # not f32, conv2d
)


def _cell(record: Mapping[str, Any], referenced: bool) -> Cell:
    result, experiment = remedied.of_path(record), record["experiment"]
    verified = bool(record["latency"]) and not remedied.by_other_path(record)
    return Cell(
        suite=record["model"]["suite"],
        model=record["model"]["name"],
        frontend=experiment["frontend"],
        target=experiment["target"],
        reached=VERIFIED if verified else _reached(record, result, referenced),
        stopped_at="" if verified else result["stage"],
        status=result["status"],
        reason=result["reason"],
        detail=result["detail"],
        verified=verified,
        rewrites=tuple((record.get("export") or {}).get("rewrites") or ()),
        remedy=record["remedy"]["name"] if remedied.is_remedied(record) else "",
        frontend_used=remedied.frontend_used(record) or "",
        first_error=remedied.first_error(record, "reason"),
    )


def _reached(record: Mapping[str, Any], result: Mapping[str, Any], referenced: bool) -> str:
    """The last stage of the chain that succeeded. `result`: the outcome for the row's lowering path."""
    at = result["stage"]
    of_eval = [stage for stage in STAGES if stage != "gradients"]
    chain = STAGES if record["experiment"]["test"] == TRAIN else of_eval
    if at in chain and result["status"] != outcome.SKIPPED:
        return (NOTHING, *chain)[chain.index(at)]
    # On a skip list, or without an environment: the row does not name the stage before, but
    # a stage that succeeded has left its report.
    for stage in ("compile", "export"):
        if record.get(stage):
            return stage
    return "reference" if referenced else NOTHING


def _is_past_reference(record: Mapping[str, Any]) -> bool:
    """Whether this row shows that the reference of its model, which all its rows share, succeeded."""
    result = record["outcome"]
    ran = result["status"] != outcome.SKIPPED and result["stage"] not in ("env", "reference")
    return ran or bool(record.get("reference") or record.get("export"))


def _model_of(record: Mapping[str, Any]) -> tuple[str, str]:
    return record["model"]["suite"], record["model"]["name"]
