"""Training steps: their latencies beside those of forward passes, and how far they follow eager mode."""

from __future__ import annotations

from typing import Any

from scripts.features.report.web.rows import ending
from scripts.features.report.web.source import Record, Source, View
from scripts.matrix.training import EVAL, TRAIN
from scripts.records import remedied, speedups, wording
from scripts.records.results_table import column_of


def select(source: Source) -> dict[str, Any] | None:
    """Return a row per training step; None if none was run.

    `forward_ms` is the latency of the forward pass of the same model, by the same path on the same device.
    """
    forward = {_key(r): _latency(r) for r in source.records if r["experiment"]["test"] == EVAL}
    found = [
        _row(index, record, forward.get(_key(record)))
        for index, record in enumerate(source.records)
        if record["experiment"]["test"] == TRAIN
    ]
    return {"rows": found} if found else None


def _row(index: int, record: Record, forward_ms: float | None) -> dict[str, Any]:
    latency = record["latency"] if _latency(record) else {}
    verification = record["verification"]
    expected = verification.get("train_expected")
    return {
        "index": index,
        "model": record["model"]["name"],
        "path": wording.path(column_of(record)),
        "ending": ending(record),
        "reason": remedied.of_path(record)["reason"],
        "latency_ms": _latency(record),
        "forward_ms": forward_ms,
        "speedup_vs_eager": latency.get("speedup_vs_eager"),
        "speedup_vs_inductor": latency.get("speedup_vs_inductor"),
        "steps": f"{verification['train_steps']}/{expected}" if expected else None,
        "losses": verification.get("losses") or [],
        "golden_losses": verification.get("golden_losses") or [],
    }


def _key(record: Record) -> tuple:
    device = speedups.device_of(record)
    return record["model"]["name"], column_of(record), record["experiment"]["precision"], *device


def _latency(record: Record) -> float | None:
    """The latency in ms; None without one, or if a remedy took the program of another lowering path."""
    if not record["latency"] or remedied.by_other_path(record):
        return None
    return record["latency"]["ms"]


VIEW = View(
    "training",
    "Training",
    select,
    "No training steps were measured. Measure them, then make this page again: "
    "snakemake --cores 8 results/latency.csv --config tests=eval,train",
)
