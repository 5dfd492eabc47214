"""The details of every row, which the page shows when a row is opened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.features.report.web.source import Record, Source
from scripts.features.report.web.stage_runs import Run
from scripts.records import clusters
from scripts.supervise import outcome

BLOCK = 200
"""Rows per compressed block: the page decompresses one block when a row of it is opened."""
OK_CHARS, FAILED_CHARS = 1_500, 5_000
"""How much of the end of a log is kept, in characters."""
_SECTIONS = (
    *("model", "experiment", "reference", "outcome", "verification", "run", "export", "compile"),
    *("remedy", "versions"),
)
_OF_LATENCY = ("values_ms", "anchor_ms", "anchor", "group", "calls", "started", "foreign", "steal")


def blocks(source: Source) -> list[list[dict[str, Any]]]:
    """Return the details of all rows in blocks, in the order of the records."""
    pairs = zip(source.records, source.stages, strict=True)
    found = [_details(source.root, *pair) for pair in pairs]
    return [found[at : at + BLOCK] for at in range(0, len(found), BLOCK)]


def _details(root: Path, record: Record, runs: Sequence[Run]) -> dict[str, Any]:
    latency = record["latency"]
    failed = clusters.failure(record)
    return {
        **{key: record.get(key) for key in _SECTIONS},
        "latency": latency and {key: latency[key] for key in _OF_LATENCY},
        "cold": record["runs"][0] if record["runs"] else None,
        # Without anything to make good, the stage of remedies ran and did nothing.
        "stages": [one for one in runs if one["stage"] != "remedy" or record.get("remedy")],
        "minimal": failed.command if failed else "",
        "log_end": log_end(root, record["outcome"]),
    }


def log_end(root: Path, ended: dict[str, Any]) -> str:
    """Return the end of the log of an outcome, as whole lines; "" if there is no log."""
    most = OK_CHARS if ended["status"] == outcome.OK else FAILED_CHARS
    return end_of(root / ended["log"], most) if ended.get("log") else ""


def end_of(path: Path, most: int) -> str:
    """Return at most `most` characters of the end of a text file, as whole lines."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            file.seek(max(0, size - 4 * most))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    if len(text) <= most:
        return text
    end = text[-most:]
    return end[end.find("\n") + 1 :]
