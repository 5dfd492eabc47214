"""Changes of what is not timed in turns: compile time, memory, size, dispatches, error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.features.compare.pairs import Pair
from scripts.features.compare.settings import Settings

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Amount:
    """A value of a row of which less is better. `key`: that of the threshold in Settings. `least`: a smaller
    absolute difference is no change. `section` and `field`: where a record has it."""

    key: str
    words: str
    unit: str
    least: float
    section: str
    field: str

    def of(self, record: Record) -> float | None:
        """Return the value of a row; None if it has none."""
        return (record.get(self.section) or {}).get(self.field)


AMOUNTS = (
    Amount("compile_s", "compile time", "s", 1.0, "compile", "compile_s"),
    Amount("compile_rss_mb", "memory of the compiler", "MiB", 32.0, "compile", "max_rss_mb"),
    Amount("run_rss_mb", "memory", "MiB", 16.0, "run", "max_rss_mb"),
    Amount("vmfb_bytes", "size of the module", "bytes", 16384.0, "compile", "vmfb_bytes"),
    Amount("dispatch_count", "dispatches", "", 2.0, "compile", "dispatch_count"),
    Amount("rmse_vs_fp64", "error against float64", "", 1e-8, "verification", "rmse_vs_fp64"),
)
"""The amounts that are compared, by one value per row."""
BY_KEY: Mapping[str, Amount] = {one.key: one for one in AMOUNTS}


@dataclass(frozen=True)
class AmountChange:
    """A value that has changed by more than its threshold. `worse`: it has grown."""

    cell: str
    key: str
    before: float
    after: float
    worse: bool

    @property
    def ratio(self) -> float | None:
        """After / before; None if it was 0 before."""
        return self.after / self.before if self.before else None


def changes(pairs: Sequence[Pair], settings: Settings) -> list[AmountChange]:
    """Return the values that are larger, or smaller, than before by more than their thresholds."""
    found = []
    for amount in AMOUNTS:
        threshold: float | None = getattr(settings, amount.key)
        if threshold is None:
            continue
        for pair in pairs:
            if pair.both and (change := _change(pair, amount, threshold)):
                found.append(change)
    return found


def _change(pair: Pair, amount: Amount, threshold: float) -> AmountChange | None:
    assert pair.both is not None
    before, after = (amount.of(one) for one in pair.both)
    if before is None or after is None or before == after or abs(after - before) < amount.least:
        return None
    if before and 1 / threshold <= after / before <= threshold:
        return None
    return AmountChange(pair.cell, amount.key, before, after, after > before)
