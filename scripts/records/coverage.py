"""How far every IREE cell came, and why it stopped there, from the rows of results.jsonl."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from scripts.matrix import stages
from scripts.matrix.cell import TRAIN, Kind
from scripts.records import remedied
from scripts.records.row import Row
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome

Record = Mapping[str, Any]

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
COLUMNS = (
    *("suite", "model", "frontend", "target", "reached", "stopped_at", "status", "reason"),
    *("detail", "verified", "rewrites", "remedy", "frontend_used", "first_error"),
)
"""The columns of coverage.csv, in order (docs/records.md)."""


def iree_cells(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Return the IREE cells among the records, in their order: COLUMNS, `ending` (a key of ENDINGS), `way` (Row.way) and
    `mark` (the outcome of the cell, in a word or two).

    `reached` is the last stage that succeeded, `stopped_at` the one that failed: `env` if the environment of a stage could
    not be made, "" for a verified cell. A cell that a remedy has compiled by another frontend's program (`frontend_used`)
    has failed at compile.
    """
    records = list(records)
    referenced = {_model_of(record) for record in records if _is_past_reference(record)}
    return [
        _cell(record, _model_of(record) in referenced)
        for record in records
        if record["experiment"]["runtime"] == "iree"
    ]


def _cell(record: Record, referenced: bool) -> dict[str, Any]:
    row, experiment = Row.of_record(record), record["experiment"]
    verified, ended = bool(row.timing), row.ended
    rewrites = tuple((record.get("export") or {}).get("rewrites") or ())
    ending = _ending(row)
    return {
        "suite": record["model"]["suite"],
        "model": row.model,
        "frontend": experiment["frontend"],
        "target": experiment["target"],
        "reached": VERIFIED if verified else _reached(record, ended, referenced),
        "stopped_at": "" if verified else ended.stage,
        "status": ended.status,
        "reason": ended.reason,
        "detail": ended.detail,
        "verified": verified,
        "rewrites": rewrites,
        "remedy": row.remedy,
        "frontend_used": remedied.frontend_used(record) or "",
        "first_error": remedied.first_error(record, "reason"),
        "ending": ending,
        "way": row.way,
        "mark": _mark(ended, ending) + ("*" if rewrites else "") + ("†" if row.remedy else ""),
    }


def _ending(row: Row) -> str:
    if row.timing:
        return VERIFIED
    ended = row.ended
    if ended.status == outcome.SKIPPED:
        return "skipped"
    if ended.status == outcome.UNAVAILABLE and ended.stage == "verify":
        return "no-device"
    special = {"wrong-result": "wrong", "nondeterministic-eager": "undecided"}
    return special.get(ended.reason, ended.stage)


def _mark(ended: Outcome, ending: str) -> str:
    words = {VERIFIED: "✓", "no-device": "compiled", "wrong": "✗ wrong"}
    if ending in ("undecided", "skipped"):
        return ending
    status = "" if ended.status == "error" else f" {ended.status}"
    return words.get(ending, f"✗ {ended.stage}{status}")


def _reached(record: Record, ended: Outcome, referenced: bool) -> str:
    """The last stage of the chain that succeeded."""
    is_train = record["experiment"]["test"] == TRAIN
    chain = [stage for stage in STAGES if is_train or stage != "gradients"]
    if ended.stage in chain and ended.status != outcome.SKIPPED:
        return (NOTHING, *chain)[chain.index(ended.stage)]
    # On a skip list, or without an environment: the row does not name the stage before, but
    # a stage that succeeded has left its report.
    for stage in ("compile", "export"):
        if record.get(stage):
            return stage
    return "reference" if referenced else NOTHING


def _is_past_reference(record: Record) -> bool:
    """Whether this row shows that the reference of its model, which all its rows share, succeeded."""
    result = record["outcome"]
    ran = result["status"] != outcome.SKIPPED and result["stage"] not in ("env", "reference")
    return ran or bool(record.get("reference") or record.get("export"))


def _model_of(record: Record) -> tuple[str, str]:
    return record["model"]["suite"], record["model"]["name"]
