"""What records say about remedies: rows whose requested compilation failed, and which a remedy compiled.

Such a row is that of the requested compilation. Where a remedy took the program of another lowering path, the row
counts as failed in everything that is stated per path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scripts.supervise import outcome

Record = Mapping[str, Any]

WAYS = ("as asked", "by remedy", "not at all")
"""How a cell of IREE can have been compiled."""


def is_remedied(record: Record) -> bool:
    """Return whether the module of a row was made by a remedy."""
    return bool((record.get("remedy") or {}).get("name"))


def by_other_path(record: Record) -> bool:
    """Return whether that remedy took the program of another frontend than the row's."""
    return is_remedied(record) and record["remedy"]["frontend"] != record["experiment"]["frontend"]


def frontend_used(record: Record) -> str | None:
    """Return the frontend whose program was compiled; None if none was, and for baselines."""
    if is_remedied(record):
        return record["remedy"]["frontend"]
    return record["experiment"]["frontend"] if record.get("compile") else None


def first_error(record: Record, key: str = "detail") -> str:
    """Return a value of the failure that a remedy has made good; "" if there was none."""
    return record["remedy"]["first"][key] if is_remedied(record) else ""


def tried(record: Record) -> str | None:
    """Return the remedies that were tried, in order, each with the reason of its failure.

    `torch-dialect (bufferization), O1`: the first one failed, the second one worked.
    """
    attempts = (record.get("remedy") or {}).get("tried") or []
    words = [
        attempt["remedy"] + ("" if attempt["status"] == outcome.OK else f" ({attempt['reason']})")
        for attempt in attempts
    ]
    return ", ".join(words) or None
