"""The time of iree-compile by pass in each run, where `snakemake compile_time` had measured it when the run was kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from scripts.core import atomic
from scripts.matrix import stages
from scripts.matrix.cell import Kind
from scripts.matrix.stage import STATUS
from scripts.records.results_file import cell_of
from scripts.supervise import outcome

if TYPE_CHECKING:
    from scripts.features.compare.history.store import Entry, Kept

ALL = "all passes"


class Compilation(msgspec.Struct, frozen=True):
    """A compilation of a program on one thread. `iree`: the version. `seconds`: by pass; ALL is the compiler itself."""

    iree: str | None
    seconds: dict[str, float]


@dataclass(frozen=True)
class KeptCompilation:
    """A compilation, and the first run that has it."""

    entry: Entry
    compilation: Compilation


def of_rows(records: Iterable[Mapping[str, Any]], root: Path) -> dict[str, Compilation]:
    """The compilations of the programs of some rows, by cell. `root`: the folder of their results/.

    Those that were measured before the program of the row was compiled are of another program or compiler, and left out.
    """
    profiled, compiled = stages.STAGES.get("profile_compile"), stages.STAGES["compile"]
    by_cell: dict[str, Compilation] = {}
    for record in records:
        if profiled is None or record["experiment"]["runtime"] != "iree":
            continue
        cell = cell_of(record)
        module = cell.to(Kind.MODULE)
        file = root / profiled.path(module.to(Kind.IREE_DUMP), "compile.json")
        status = root / compiled.path(module, STATUS)
        if not file.is_file() or not file.stat().st_size or not status.is_file():
            continue
        if file.stat().st_mtime_ns < status.stat().st_mtime_ns:
            continue
        measured = atomic.read_json(file)
        if measured["program"]["status"] == outcome.OK:
            seconds = {ALL: round(measured["total_s"], 4)}
            seconds |= {each["name"]: each["s"] for each in measured["passes"]}
            by_cell[str(cell)] = Compilation(record["versions"]["iree"], seconds)
    return by_cell


def read(kept: Iterable[Kept], selects: Callable[[str], bool]) -> dict[str, list[KeptCompilation]]:
    """The compilations of the selected cells, the oldest first; what several runs have counts once. Raises Damaged."""
    by_cell: dict[str, list[KeptCompilation]] = {}
    for run in kept:
        for cell, compilation in run.compilations().items():
            if selects(cell):
                known = by_cell.setdefault(cell, [])
                if not known or known[-1].compilation != compilation:
                    known.append(KeptCompilation(run.entry, compilation))
    return by_cell
