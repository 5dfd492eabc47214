"""Comparison: what `vmfbench compare --save results/comparison.json` has found."""

from __future__ import annotations

from typing import Any

from scripts.core import atomic
from scripts.features.report.web.source import Source, View

FILE = "comparison.json"
_KEYS = ("before", "after", "summary", "tables", "latencies")


def select(source: Source) -> dict[str, Any] | None:
    """Return the comparison; None if there is none. Raises ValueError or KeyError for a file of another form."""
    path = source.results / FILE
    if not path.is_file():
        return None
    found = atomic.read_json(path)
    return {key: found[key] for key in _KEYS}


VIEW = View(
    "comparison",
    "Comparison",
    select,
    "Nothing was compared. Compare with an earlier run, then make this page again: "
    "vmfbench compare BEFORE/results results --save results/comparison.json",
)
