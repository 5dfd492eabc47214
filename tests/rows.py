"""Real and synthetic records of rows, for the tests of the results' output."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.results import latency_section, speedups
from scripts.results.results_table import Table
from scripts.results.row import Column

RECORDS = Path(__file__).parent / "unit/data/results.jsonl"
"""Rows of a default run: a model that all lowering paths run, a model with two targets, a language
model, and a model whose best lowering paths differ clearly. Their generations are made up around latencies that were measured."""


def real() -> Table:
    """Return the table of the real rows."""
    return Table.of_records(map(json.loads, RECORDS.read_text().splitlines()))


def steady(ms: float, shift: int = 0) -> list[float]:
    """Return the latencies of six generations that are within 1 % of `ms`. Rows with another `shift` have them in another
    order, so that the intervals of their ratios are about ±3 %."""
    logs = (-0.01, 0.01, -0.005, 0.005, 0.0, 0.0)
    return [ms * math.exp(one) for one in (*logs[shift:], *logs[:shift])]


def unsteady(ms: float, shift: int = 0) -> list[float]:
    """The same within 50 %."""
    return [ms * (one / ms) ** 40 for one in steady(ms, shift)]


def latency(values_ms: Sequence[float], **of: Any) -> dict[str, Any]:
    """Return the section `latency` of a record. `of`: values that are not those of a row without an anchor, in the group
    `g`, without speed-ups."""
    bases = (f"speedup_vs_{base}{end}" for base in speedups.BASES for end in ("", "_low", "_high"))
    return {
        **latency_section.figures(tuple(values_ms)),
        "values_ms": list(values_ms),
        "anchor_ms": [],
        "anchor": None,
        "group": "g",
        "generations": len(values_ms),
        "turns": 3 * len(values_ms),
        "calls": 100 * len(values_ms),
        "p50_ms": sorted(values_ms)[len(values_ms) // 2],
        "p90_ms": None,
        "p99_ms": None,
        "control_ratio": None,
        "control_low": None,
        "control_high": None,
        "started": 1_790_000_000.0,
        "foreign": 0.0,
        "steal": 0.0,
        "load": 0.0,
        "doubt": "",
        "verdict": None,
        **dict.fromkeys(bases),
        **of,
    }


def record(
    column: Column,
    values_ms: Sequence[float] | None = None,
    model: str = "m",
    status: str = "error",
    reason: str = "why",
    detail: str = "what",
    **of: Any,
) -> dict[str, Any]:
    """Return a record of a row with these latencies, or of one that failed. `of`: test, device, options, doubt etc."""
    is_iree = bool(column.target)
    experiment = {
        "runtime": "iree" if is_iree else column.name.split("-")[0],
        "frontend": column.name if is_iree else None,
        "target": column.target if is_iree else column.name,
        "test": of.get("test", "eval"),
        "dtype": "f32",
        "precision": of.get("precision", "none"),
        "batch_size": 1,
        "device": of.get("device", "cpu"),
        "xla_flags": None,
        "backend": "llvm-cpu",
    }
    timed = None
    if values_ms:
        status = reason = detail = ""
        timed = latency(
            values_ms, group=f"{model} {of.get('group', '')}", doubt=of.get("doubt", "")
        )
    return {
        "model": {"name": model, "options": of.get("options", {})},
        "experiment": experiment,
        "reference": of.get("reference", {}),
        "outcome": {"status": status or "ok", "reason": reason, "detail": detail},
        "latency": timed,
        "run": {"device_name": "one", "threads": 2},
        "versions": {},
    }
