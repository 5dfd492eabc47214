"""The data of the views that show other files than results.jsonl: each is None where there is no such file."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from scripts.core import atomic
from scripts.features.compare.history import series, store
from scripts.features.compare.history.series import Shown
from scripts.features.compare.history.store import Damaged, Entry
from scripts.features.operators.report import analysis, page, records_file
from scripts.features.operators.report.table import Table
from scripts.features.profile import profile_files
from scripts.features.profile.account import account
from scripts.features.profile.page import worth_looking_at
from scripts.features.report.web.page_source import Source
from scripts.matrix import stages
from scripts.matrix.cell import Cell, Kind
from scripts.records import wording
from scripts.records.row import Row
from scripts.run import outputs

MOST_RUNS = 100
"""Runs of the history, the newest ones."""
WITH_SERIES = ("latency_ms", "vmfb_bytes", "compile_s")
"""Columns whose history the page has."""
MOST_PARTS = 60
"""Modules and dispatches of a profiled cell that are kept, those with the most time."""
MOST_FIXES = 300
"""Failures of operators that are kept; operators.csv has all."""
_OF_COMPARISON = ("before", "after", "summary", "tables", "latencies")
_OF_KERNEL = (
    *("name", "shape", "gb_per_s", "gb_per_s_low", "gb_per_s_high", "gflop_per_s"),
    *("bandwidth_share", "limit_share", "limited_by", "machine_gb_per_s"),
)


def comparison(source: Source) -> dict[str, Any] | None:
    """Return what `vmfbench compare --save results/comparison.json` has found. Raises ValueError or KeyError for a file of
    another form."""
    path = source.results / "comparison.json"
    if not path.is_file():
        return None
    found = atomic.read_json(path)
    return {key: found[key] for key in _OF_COMPARISON}


def history(source: Source) -> dict[str, Any] | None:
    """Return the runs and, by value, the series of the cells of this page; None if there are no two runs."""
    kept, _ = store.read(source.results / store.FOLDER.name)
    kept = kept[-MOST_RUNS:]
    if len(kept) < 2:
        return None
    rows = {str(row.cell): index for index, row in enumerate(source.rows)}
    places = {one.entry.id: place for place, one in enumerate(kept)}
    columns = [series.value_field(name) for name in WITH_SERIES]
    try:
        outcomes, found = series.read(kept, columns, rows.__contains__)
    except Damaged:  # `vmfbench history` names the file
        return None
    values = {
        of.column: [_series(rows, places, series.shown(one, of)) for one in found[of.column]]
        for of in columns
    }
    return {
        "runs": [_run(one.entry) for one in kept],
        "values": values,
        "endings": [
            {
                "row": rows[one.cell],
                "run": places[one.after.entry.id],
                "before": one.before.ended,
                "after": one.after.ended,
                "differs": list(one.differs),
            }
            for one in series.endings(outcomes)
        ],
    }


def _run(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.short,
        "when": series.when(entry.at),
        "commit": entry.commit,
        "machine": f"{entry.machine.cpu}, {entry.machine.cores} cores",
        "versions": entry.versions,
        "rows": entry.rows,
        "ok": entry.statuses.get("ok", 0),
    }


def _series(rows: dict[str, int], places: dict[str, int], shown: Shown) -> dict[str, Any]:
    """Return a series with its changes. A point is the place of its run, its value, the ends of its interval and its milliseconds."""
    known = series.to_json(shown)
    return {
        "row": rows[shown.series.cell],
        **{key: known[key] for key in ("conditions", "unit", "anchor", "follows")},
        "points": [[places[one["run"]], one["value"], *(one["interval"] or (None, None)), one["ms"]] for one in known["points"]],
        "changes": [{"run": places[one["run"]], "ratio": one["ratio"], "differs": one["differs"]} for one in known["changes"]],
        "drift": known["drift"],
    }  # fmt: skip


def why(source: Source) -> dict[str, Any] | None:
    """Return the account of every cell that has a profile: its dispatches and modules, beside PyTorch and the machine's
    limit."""
    below = source.root / stages.STAGES["profile_iree"].path(".")
    found = []
    for path in sorted(below.glob(f"*/iree/**/{profile_files.PROFILE}")):
        dump = path.parent.relative_to(below).as_posix()
        if path.stat().st_size and (
            one := _account(source, str(Cell.parse(dump, Kind.IREE_DUMP).row))
        ):
            found.append(one)
    return {"cells": found} if found else None


def _account(source: Source, name: str) -> dict[str, Any] | None:
    """Return the account of a cell; None if a file of it is damaged."""
    try:
        profiles = profile_files.read(source.results, name)
        found = account(profiles)
    except (profile_files.NoProfile, ValueError, LookupError, TypeError):
        return None
    threads = profiles.iree["threads"]
    return {
        "cell": name,
        "threads": threads,
        "call_ms": dict(found.call_ms),
        "limit_ms": found.limit_ms,
        "parts": [asdict(one) for one in found.parts[:MOST_PARTS]],
        "kernels": [asdict(one) for one in found.kernels[:MOST_PARTS]],
        "first": worth_looking_at(found, threads),
    }


def operators(source: Source) -> dict[str, Any] | None:
    """Return the pass rates of operators by target, and their failures by cause."""
    path = source.root / records_file.JSONL
    if not path.is_file():
        return None
    table = Table(records_file.data(path))
    if not table.rows:
        return None
    return {
        "title": page.title(table),
        "targets": [_rates(table, target) for target in table.targets],
        "fixes": [_fix(one) for one in analysis.fixes(table)[:MOST_FIXES]],
        "speedups": [
            [row.problem.op, wording.path(row.column), row.speedup]
            for row in table.rows
            if row.speedup is not None and row.column.target
        ],
    }


def _rates(table: Table, target: str) -> dict[str, Any]:
    found = analysis.rates(table, target)
    return {
        "target": target,
        "ran": found.has_run,
        "columns": [column.name for column in found.columns],
        "operators": [
            [of.op, of.calls, [[one.passed, one.of] for one in (*of.by_column, of.best)]]
            for of in (found.all, *found.operators)
        ],
    }


def _fix(of: analysis.Fix) -> dict[str, Any]:
    return {
        **{key: getattr(of.first, key) for key in ("fault", "status", "reason")},
        "detail": of.detail,
        "calls": of.calls,
        "stage": of.first.stage.removeprefix("operator_"),
        "blocked": of.blocked_calls,
        "problems": len(of.problems),
        "operators": of.operators,
        "example": of.problems[0].args,
        "where": [wording.path(column) for column in of.columns],
        "models": list(dict.fromkeys(model for model, _ in of.alone)),
    }


def kernels(source: Source) -> dict[str, Any] | None:
    """Return a row per kernel, shape and runtime, with GB/s and the bandwidth of the machine."""
    path = source.root / outputs.files_of("kernels")[2]
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", newline="\n") as lines:
        found = [_kernel(json.loads(line)) for line in lines]
    return {"rows": found} if found else None


def _kernel(record: dict[str, Any]) -> dict[str, Any]:
    row, run = Row.of(record), record["run"]
    known = _OF_KERNEL if row.timing else ("name", "shape")
    return {
        **{key: record["kernel"].get(key) if key in known else None for key in _OF_KERNEL},
        "dtype": record["experiment"]["dtype"],
        "device": run["device_name"],
        "threads": run["threads"],
        "path": wording.path(row.column),
        "ending": row.ending,
        "reason": row.ended.reason,
        "latency_ms": row.timing.ms if row.timing else None,
        "speedup_vs_eager": row.timing.latency["speedup_vs_eager"] if row.timing else None,
    }
