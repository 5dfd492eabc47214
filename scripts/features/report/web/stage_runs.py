"""What each stage of a row took: how it ended, seconds, peak memory, and its memory over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.matrix import stages, threads, training
from scripts.matrix.cell import Cell, Kind
from scripts.matrix.stage import STATUS, Stage
from scripts.matrix.stages import STAGES
from scripts.records import speedups
from scripts.records.results_file import cell_of
from scripts.supervise import memory_series, outcome
from scripts.supervise.memory_series import Series

Run = dict[str, Any]
"""Name and cell of a stage, its status, seconds, peak in MiB and log."""


def of_row(row: Cell) -> Iterator[tuple[Stage, Cell]]:
    """Yield the stages of its own that a row may have had, in order, each with its cell."""
    names = [stage.name for stage in stages.before(stages.LAST[row.kind])]
    if row.kind is Kind.IREE:
        names.insert(names.index("compile") + 1, "remedy")
    test = training.test_of(row)
    if test == training.TRAIN:
        names.insert(names.index("reference") + 1, "gradients")
    for name in names:
        yield STAGES[name], row.to(STAGES[name].kind)


def timed(record: Mapping[str, Any]) -> tuple[Stage, Cell]:
    """The stage that times a row, with its group."""
    row = cell_of(record)
    device, *_ = speedups.device_of(record)
    device = threads.named(device, threads.of(str(row)))
    of = Cell.of(Kind.GROUP, model=row["model"], device=device, test=training.test_of(row))
    return STAGES["time"], of


def read(root: Path, rows: Sequence[Mapping[str, Any]]) -> list[list[Run]]:
    """Return the stages of each row that have an outcome. A stage that several rows share is read once."""
    known: dict[tuple[str, Cell], Run | None] = {}
    found = []
    for record in rows:
        runs = []
        for stage, of in (*of_row(cell_of(record)), timed(record)):
            key = stage.name, of
            if key not in known:
                known[key] = _read(root, stage, of)
            if run := known[key]:
                runs.append(run)
        found.append(runs)
    return found


def _read(root: Path, stage: Stage, of: Cell) -> Run | None:
    path = root / stage.path(of, STATUS)
    if not path.is_file():
        return None
    ended = outcome.read_or_damaged(path)
    try:
        used = outcome.read_usage(path)
    except (OSError, ValueError):  # damaged: the stage has its outcome all the same
        used = None
    return {
        "stage": stage.name,
        "cell": str(of),
        "status": ended.status,
        "seconds": used.seconds if used else None,
        "mb": used.max_rss_mb if used else None,
        "log": ended.log,
    }


def series(root: Path, stage: str, cell: str) -> Series | None:
    """Return the memory over time of a stage; None if it was not recorded."""
    return memory_series.read(root / STAGES[stage].path(cell, STATUS))
