"""What a program for all sizes costs: its latency beside that of the program for one size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scripts.matrix import cell
from scripts.records import remedied, speedups
from scripts.records.results_file import cell_of

Record = dict[str, Any]

COST = "dynamic_cost"


def add(records: Sequence[Record]) -> None:
    """Compare each latency of a program for all sizes with that for this size: of the same path and target, or runtime.

    A row that a remedy has made good by another path is compared with none.
    """
    timed = [
        record for record in records if record["latency"] and not remedied.by_other_path(record)
    ]
    by_name = {(str(cell_of(record)), speedups.device_of(record)): record for record in timed}
    for record in timed:
        row = cell_of(record)
        if not cell.is_dynamic(row.frontend or row.baseline):
            continue
        name = str(row).replace(cell.DYNAMIC_SUFFIX, "", 1)
        base = by_name.get((name, speedups.device_of(record)))
        ratio: tuple[float | None, ...] = None, None, None
        if base is not None:
            # How many times faster the program for one size is.
            own, other = record["latency"], base["latency"]
            ratio = speedups.point(own, other), None, None
            difference = speedups.difference(own, other)
            if difference and (interval := difference.interval()):
                ratio = interval.ratio, interval.low, interval.high
        record["latency"] |= dict(zip((COST, f"{COST}_low", f"{COST}_high"), ratio, strict=True))
