"""Resident memory: the peak of each stage of a row, and over time where it was recorded."""

from __future__ import annotations

from typing import Any

from scripts.features.report.web import stage_runs
from scripts.features.report.web.source import Source, View

SHOWN = ("reference", "export", "compile", "verify", "baseline", "time")
"""Stages whose memory is shown."""


def select(source: Source) -> dict[str, Any]:
    """Return, for each stage that ran: its rows, seconds, peak in MiB and samples over time.

    A stage that several rows share, such as an export, is there once.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for index, (record, runs) in enumerate(zip(source.records, source.stages, strict=True)):
        for one in runs:
            if one["stage"] not in SHOWN or not one["mb"]:
                continue
            key = one["stage"], one["cell"]
            if key not in found:
                found[key] = _of_stage(source, one, record["model"]["name"])
            found[key]["rows"].append(index)
    return {"stages": list(found.values()), "order": SHOWN}


def _of_stage(source: Source, one: dict[str, Any], model: str) -> dict[str, Any]:
    series = stage_runs.series(source.root, one["stage"], one["cell"])
    return {
        "stage": one["stage"],
        "cell": one["cell"],
        "model": model,
        "status": one["status"],
        "seconds": one["seconds"],
        "mb": one["mb"],
        "series": series.to_json() if series else None,
        "rows": [],
    }


VIEW = View("memory", "Memory", select)
