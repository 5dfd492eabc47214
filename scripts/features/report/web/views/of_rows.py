"""The data of the views that show the rows of results.jsonl.

Thread scaling is the parallel efficiency of each model, by path: that of n threads is latency(fewest) × fewest / (latency(n) × n), where `fewest` is the smallest number of
threads with a latency. It is 1 if twice the threads take half the time. Rows of different numbers of threads are timed one
group after the other, so its interval is that of two independent latencies: it does not contain what changes between groups.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from scripts.features.report.web.page_source import FAILED_CHARS, Record, Run, Source, end_of
from scripts.matrix import cell, compile_tables
from scripts.matrix.cell import EVAL, TRAIN
from scripts.matrix.stages import STAGES, status_path
from scripts.records import speedups, wording
from scripts.records.clusters import Cluster, clusters, command
from scripts.records.fields import lookup
from scripts.records.results_table import ModelRows, Table, in_order
from scripts.records.row import Column, Row, Timing
from scripts.supervise import outcome
from scripts.timing import ratios
from scripts.timing.ratios import Interval

Numbered = dict[int, Row]
"""The rows of a line by their number of threads."""


@dataclass(frozen=True)
class ScalingPoint:
    """A row of a line. `efficiency` is None without a latency, and where it is not known (Interval.is_known); `interval` is its 99 % interval, None for the
    fewest threads and where one of the two latencies has none."""

    threads: int
    row: Row
    efficiency: float | None = None
    interval: Interval | None = None


@dataclass(frozen=True)
class ScalingLine:
    """A model in one test by one path, on one CPU, with a point for each number of threads, the fewest first. `column` is the
    path without a number. `device`: the CPU, if there are lines of several."""

    rows: ModelRows
    column: Column
    points: tuple[ScalingPoint, ...]
    device: str = ""

    @property
    def path(self) -> str:
        """The name of the line in legends."""
        return f"{wording.path(self.column)}{self.device and f' ({self.device})'}"


def scaling_lines(table: Table) -> list[ScalingLine]:
    """Return the lines with more than one number of threads, in the order of the models and of their columns."""
    return [line for rows in table.rows for line in _scaling_lines(rows) if len(line.points) > 1]


def _scaling_lines(of_model: ModelRows) -> Iterator[ScalingLine]:
    """Yield the lines of a model. Each has the failures of its path, which may have been on any CPU."""
    timed: dict[Column, dict[str, Numbered]] = defaultdict(lambda: defaultdict(dict))
    failed: dict[Column, Numbered] = defaultdict(dict)
    for column, row in of_model.entries.items():
        shared = Column(cell.without_threads(column.name), cell.without_threads(column.target))
        if at := row.conditions:
            cpu = " of ".join(filter(None, (at.device_name, at.machine)))
            if at.threads:
                timed[shared][cpu][at.threads] = row
        elif number := cell.threads_of(column.label):
            failed[shared][number] = row
    for column in dict.fromkeys((*timed, *failed)):
        several = len(timed[column]) > 1
        for cpu, rows in (timed[column] or {"": {}}).items():
            points = tuple(_scaling_points(failed[column] | rows))
            yield ScalingLine(of_model, column, points, cpu if several else "")


def _scaling_points(rows: Numbered) -> Iterator[ScalingPoint]:
    timings = {number: row.timing for number, row in rows.items() if row.timing}
    fewest = min(timings, default=0)
    for number, row in sorted(rows.items()):
        if row.timing is None:
            yield ScalingPoint(number, row)
        elif number == fewest:
            yield ScalingPoint(number, row, 1.0)
        else:
            yield ScalingPoint(
                number, row, *_efficiency(timings[fewest], row.timing, fewest / number)
            )


def _efficiency(base: Timing, timing: Timing, share: float) -> tuple[float | None, Interval | None]:
    """The efficiency and its interval. `share`: the threads of `base`, divided by those of `timing`."""
    known = [
        ratios.of_logs(list(map(math.log, timed.latency["values_ms"]))) for timed in (base, timing)
    ]
    if known[0] is None or known[1] is None:
        return None, None
    interval = ratios.combined([(1, known[0]), (-1, known[1])]).interval()
    ends = Interval(*(share * end for end in (interval.ratio, interval.low, interval.high)))
    return (ends.ratio if ends.is_known else None), ends


INVERSE_DF = tuple(place / 1000 for place in range(0, 501, 2))
"""Inverse degrees of freedom at which the page knows the quantile of the t distribution. There are at least
ratios.LEAST - 1 degrees of freedom."""
WITH_MEMORY = ("reference", "export", "compile", "verify", "baseline", "time")
"""Stages whose memory is shown."""
PLANNED = {
    "parameters": "reference.weights_bytes",
    "constants": "compile.constant_bytes",
    "intermediate results, packed weights": "compile.transient_bytes",
}
"""What a program needs memory for, with the places of the bytes in a record."""


def overview(source: Source) -> dict[str, Any]:
    """Return the map of the matrix (rows, columns, and the index of a record for each place), what was
    measured with what, and what was not measured."""
    table = source.table
    provenance = table.provenance
    columns = in_order(table.rows)
    lines = {(line.model, line.test): place for place, line in enumerate(table.rows)}
    return {
        "where": provenance.where,
        "with": provenance.with_what,
        "absent": [wording.absent(absent) for absent in table.absent],
        "models": provenance.models,
        "entries": provenance.entries,
        "columns": [[column.name, column.target] for column in columns],
        "rows": [[line.label, line.size] for line in table.rows],
        "cells": [
            [lines[row.model, row.test], columns.index(row.column), index]
            for index, row in enumerate(source.rows)
        ],
    }


def latency(source: Source) -> dict[str, Any]:
    """Return what the page needs to compute means with intervals over any selection of rows.

    `quantiles`: pairs (1 / degrees of freedom, quantile). `means`: those over all rows, as they are in
    latency.md; a test compares the page's own with them.
    """
    return {
        "quantiles": [
            [x, ratios.quantile(1 / x if x else 1e9, ratios.CONFIDENCE)] for x in INVERSE_DF
        ],
        "bases": list(wording.BASE_NAMES),
        "means": [
            [mean.column.name, mean.column.target, mean.test]
            + [wording.speedup(speedup, mean) for speedup in mean.over]
            for mean in source.table.means
        ],
    }


def threads(source: Source) -> dict[str, Any] | None:
    """Return a line per model, test and path with a point per number of threads; None if all rows have one number."""
    places = {(row.model, row.test, row.column): index for index, row in enumerate(source.rows)}
    lines = [
        {
            "model": line.rows.label,
            "path": line.path,
            "points": [
                _point(point, places[line.rows.model, line.rows.test, point.row.column])
                for point in line.points
            ],
        }
        for line in scaling_lines(source.table)
    ]
    return {"lines": lines} if lines else None


def _point(point: ScalingPoint, index: int) -> dict[str, Any]:
    timing, interval = point.row.timing, point.interval
    low_ms, high_ms = (timing and timing.ends_ms) or (None, None)
    return {
        "index": index,
        "threads": point.threads,
        "reason": "" if timing else point.row.why,
        "latency_ms": timing.ms if timing else None,
        "latency_low_ms": low_ms,
        "latency_high_ms": high_ms,
        "efficiency": point.efficiency,
        "efficiency_low": interval.low if interval else None,
        "efficiency_high": interval.high if interval else None,
    }


def training(source: Source) -> dict[str, Any] | None:
    """Return a row per training step; None if none was run.

    `forward_ms` is the latency of the forward pass of the same model, by the same path on the same device.
    """

    def key(row: Row, record: Record) -> tuple:
        device = speedups.device_of(record)
        return row.model, row.column, record["experiment"]["precision"], *device

    pairs = list(zip(source.rows, source.records, strict=True))
    forward = {key(*pair): pair[0].timing for pair in pairs if pair[0].test == EVAL}
    rows = []
    for index, (row, record) in enumerate(pairs):
        if row.test != TRAIN:
            continue
        timing, before = row.timing, forward.get(key(row, record))
        own, verification = timing.latency if timing else {}, record["verification"]
        expected = verification.get("train_expected")
        rows.append({
            "index": index,
            "model": row.model,
            "path": wording.path(row.column),
            "ending": row.ending,
            "reason": row.ended.reason,
            "latency_ms": timing.ms if timing else None,
            "forward_ms": before.ms if before else None,
            "speedup_vs_eager": own.get("speedup_vs_eager"),
            "speedup_vs_inductor": own.get("speedup_vs_inductor"),
            "steps": f"{verification['train_steps']}/{expected}" if expected else None,
            "losses": verification.get("losses") or [],
            "golden_losses": verification.get("golden_losses") or [],
        })  # fmt: skip
    return {"rows": rows} if rows else None


def failures(source: Source) -> dict[str, Any]:
    """Return the clusters of all failures: their cells, an example, remedies, and what they block."""
    return {"clusters": [_cluster(source, cluster) for cluster in clusters(source.records)]}


def _cluster(source: Source, cluster: Cluster) -> dict[str, Any]:
    """Return a cluster with its first failure as the example."""
    known = [
        (name, remedy.does)
        for name, remedy in compile_tables.remedies().remedies.items()
        if cluster.stage == "compile" and cluster.reason in remedy.reasons
    ]
    failed = [(row, row.failed) for row in cluster.rows if row.failed]
    first, example = failed[0]
    return {
        "stage": cluster.stage,
        "reason": cluster.reason,
        "signature": cluster.signature,
        "statuses": sorted({ended.status for _, ended in failed}),
        "made_good": cluster.is_made_good,
        "cells": [[str(row.cell), ended.status, row.remedy, row.tried] for row, ended in failed],
        "example": {
            "cell": str(first.cell),
            "detail": example.detail,
            "command": command(cluster.example, example),
            "log": example.log,
            "log_end": end_of(source.results, example.log, FAILED_CHARS),
        },
        "remedies": known,
        "blocks": [[model, target, by] for (model, target), by in cluster.blocks.items()],
    }


def memory(source: Source) -> dict[str, Any]:
    """Return, for each stage that ran: its rows, seconds, peak in MiB and samples over time; and, for each row with a compiled
    program, the bytes of what that needs by purpose.

    A stage that several rows share, such as an export, is there once.
    """
    stages: dict[tuple[str, str], dict[str, Any]] = {}
    for index, (row, runs) in enumerate(zip(source.rows, source.stages, strict=True)):
        for ran in runs:
            if ran["stage"] not in WITH_MEMORY or not ran["mb"]:
                continue
            key = ran["stage"], ran["cell"]
            if key not in stages:
                stages[key] = _of_stage(source, ran, row.model)
            stages[key]["rows"].append(index)
    planned = [
        {"row": index, "model": row.model, "bytes": parts}
        for index, (row, record) in enumerate(zip(source.rows, source.records, strict=True))
        if (parts := _planned(record))
    ]
    return {"stages": list(stages.values()), "order": WITH_MEMORY, "planned": planned}


def _planned(record: Mapping[str, Any]) -> dict[str, int]:
    """The bytes of the parameters, constants, intermediate results and packed weights of a program; {} if they are not known."""
    values = {name: lookup(record, path) for name, path in PLANNED.items()}
    return values if values["intermediate results, packed weights"] is not None else {}


def _of_stage(source: Source, ran: Run, model: str) -> dict[str, Any]:
    path = source.root / status_path(STAGES[ran["stage"]].folder, ran["cell"])
    series = outcome.read_memory(path)
    kept = {key: ran[key] for key in ("stage", "cell", "status", "seconds", "mb")}
    return kept | {"model": model, "series": asdict(series) if series else None, "rows": []}
