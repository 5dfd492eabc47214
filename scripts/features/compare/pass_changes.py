"""The passes of iree-compile whose time differs between two runs, for cells of which both have `snakemake compile_time`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.features.compare.code_changes import has_code
from scripts.features.compare.pairs import Pair, difference
from scripts.features.profile import compile_page
from scripts.features.profile.profile_files import NoProfile
from scripts.records.results_file import cell_of
from scripts.supervise import outcome

LEAST = 0.05
"""A pass is listed if its seconds differ by this share of the compiler's seconds before."""
ALL = "all passes"


@dataclass(frozen=True)
class PassChange:
    """The seconds of a pass before and after, and of what share of the compiler's seconds before the difference is. `name`: ALL
    for the compiler itself."""

    cell: str
    name: str
    before_s: float
    after_s: float
    share: float


def of_pair(pair: Pair, folders: tuple[Path, Path]) -> list[PassChange]:
    """The compiler's seconds on one thread, and the passes in which they differ, the largest difference first; [] if one of the
    runs has no times, or has another measurement. `folders`: those in which the runs before and after were started."""
    if not pair.both or not has_code(pair) or difference(*pair.both):
        return []
    seconds = []
    for row, folder in zip(pair.both, folders, strict=True):
        try:
            data = compile_page.read(folder / "results", str(cell_of(row))).data
        except NoProfile:
            return []
        if data["program"]["status"] != outcome.OK:
            return []
        seconds.append(data)
    return between(pair.cell, *seconds)


def between(
    cell: str, before_data: Mapping[str, Any], after_data: Mapping[str, Any]
) -> list[PassChange]:
    """`of_pair` of two compilations of a cell, as scripts.stages.profile_compile describes them."""
    before, after = map(_seconds, (before_data, after_data))
    changes = [
        PassChange(cell, name, was, now, (now - was) / before[ALL])
        for name in {**before, **after}
        for was, now in [(before.get(name, 0.0), after.get(name, 0.0))]
    ]
    whole, *parts = changes
    large = (change for change in parts if abs(change.share) >= LEAST)
    return [whole, *sorted(large, key=lambda change: -abs(change.share))]


def _seconds(data: Mapping[str, Any]) -> dict[str, float]:
    """The seconds of each pass by its name, of the compiler itself, and of what is left."""
    own = {part["name"]: part["s"] for part in data["passes"]}
    rest = data["total_s"] - sum(own.values())
    return {ALL: data["total_s"], **own, compile_page.REST: rest}
