"""Makes the records of results/tuned.csv, and the results that `tuned: auto` uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.features.variants import tuned_matrix
from scripts.features.variants.search import report
from scripts.features.variants.search.report import Line, Report
from scripts.matrix import stages
from scripts.matrix.cell import PINNED, Cell, Kind
from scripts.matrix.entries import AS_CONFIGURED, TUNED
from scripts.matrix.rows import Matrix
from scripts.matrix.stages import REPORT
from scripts.records import record, speedups, stage_files
from scripts.records.record import VERSIONS_OF_EVERY_RECORD, iree_versions
from scripts.run.kept_results import Result
from scripts.supervise import outcome
from scripts.timing import ratios

Record = dict[str, Any]
Reports = Mapping[tuple[str, str], Report]
"""The reports of tuning by model and target."""


def records(matrix: Matrix, root: Path = Path()) -> tuple[list[Record], Reports]:
    """The records of all tuned rows, then of the baselines that they are compared with; and the reports.

    Raises ValueError if the file with the limits of a device has another form.
    """
    by_row = {row: _tuned_record(root, matrix, row) for row in tuned_matrix.rows(matrix)}
    reports = {(row.model, row.target): report for row, (_, report) in by_row.items() if report}
    baselines = [
        record.baseline_record(root, matrix, matrix.models[cell.model], matrix.baselines[cell.baseline], cell.test, "time_tuned")
        for cell in tuned_matrix.baselines(matrix)
    ]  # fmt: skip
    rows = [*(row_record for row_record, _ in by_row.values()), *baselines]
    record.compare(rows, tuned_matrix.devices(matrix), root)
    for baseline in baselines:
        baseline["tuning"] = None
    for row, (row_record, searched) in by_row.items():
        row_record["tuning"] = _section(row, searched)
    for row, (tuned, _) in by_row.items():
        if row.frontend == TUNED:
            other = Cell.of_kind(row.kind, **(row.by_axis() | {"frontend": AS_CONFIGURED}))
            tuned["tuning"] |= _gain(tuned, by_row[other][0])
    return rows, reports


def _tuned_record(root: Path, matrix: Matrix, row: Cell) -> tuple[Record, Report | None]:
    """The record of a row of results/tuned.csv, and the report of its tuning (None: there is none)."""
    model, target = matrix.models[row.model], tuned_matrix.part(matrix).targets[row.target]
    target = target.for_model(model)
    common = record.common_record(
        root, matrix, row, matrix.chain(row), model, target.device_kind, "time_tuned"
    )
    values = stage_files.read_if_whole(root, stages.STAGES["tune"], row.to(Kind.TUNING), REPORT)
    searched = report.read(values) if values else None
    common["versions"] = dict.fromkeys(VERSIONS_OF_EVERY_RECORD) | common["versions"]
    if chosen := _chosen(row, searched):
        target = replace(target, opt_level=chosen.opt_level, flags=chosen.flags)
        common["compile"] = chosen.compile
        exported = Cell.of_kind(Kind.PROGRAM, model=model.name, frontend=chosen.frontend)
        record.add_export(root, matrix, common, exported, matrix.frontends[chosen.frontend])
    of_row = {"test": "eval", "tuned": None, "toolchain": PINNED}
    common["experiment"] |= of_row | record.of_target(row, target)
    common["versions"] |= iree_versions(root, matrix, target.env, common["versions"]["iree"])
    return common, searched


def _chosen(row: Cell, searched: Report | None) -> Line | None:
    """The candidate whose module a row has."""
    if searched is None:
        return None
    return searched.line_of(searched.tuned if row.frontend == TUNED else searched.default)


_NO_RESULT = (outcome.UNAVAILABLE, outcome.SKIPPED, outcome.DAMAGED)
_ENDS = ("", "_low", "_high")
"""Of the names of a speed-up and the ends of its interval."""


def results(records: Sequence[Mapping[str, Any]]) -> Iterator[Result]:
    """Yield the result of each model and target, from the records.

    If one of the two modules was not measured because there is no such device, because something else failed, or for a
    reason that passes, there is no result: an earlier one stays.
    """
    rows = {
        (
            record["model"]["name"],
            record["experiment"]["target"],
            record["experiment"]["frontend"],
        ): record
        for record in records
    }
    for (model, target, frontend), tuned in rows.items():
        if frontend != TUNED or tuned["outcome"]["status"] in _NO_RESULT:
            continue
        default = rows[model, target, AS_CONFIGURED]
        if any(row["outcome"]["reason"] in outcome.PASSING for row in (tuned, default)):
            continue
        experiment, tuning = tuned["experiment"], tuned["tuning"]
        yield Result(
            model=model,
            target=target,
            options=tuned["model"]["options"],
            kept=tuning["kept"],
            why=tuning["why"],
            frontend=tuning["frontend"],
            opt_level=experiment["opt_level"] if tuning["frontend"] else None,
            flags=tuple(experiment["flags"]) if tuning["frontend"] else (),
            backend=experiment["backend"],
            arch=experiment["arch"],
            device=experiment["device_uri"],
            device_name=tuned["run"]["device_name"],
            threads=tuned["run"]["threads"],
            versions={k: v for k, v in tuned["versions"].items() if v and not k.endswith("_build")},
            latency_ms=(tuned["latency"] or {}).get("ms"),
            default_ms=(default["latency"] or {}).get("ms"),
            **{f"speedup{end}": tuning[f"speedup_vs_default{end}"] for end in _ENDS},
        )


def _section(row: Cell, searched: Report | None) -> Record:
    """The section `tuning` of a row, without its gain."""
    chosen = _chosen(row, searched)
    lines = searched.candidates if searched else ()
    known = {
        "candidates": len(lines),
        "compiled": sum(line.step != "compile" or line.status == outcome.OK for line in lines),
        "verified": sum(line.status == outcome.OK and not line.same_as for line in lines),
        "failed": sum(line.status in outcome.FAILED and not line.same_as for line in lines),
        "seconds": searched.compile_s + searched.measure_s if searched else None,
    }
    return {
        "candidate": chosen.name if chosen else None,
        "frontend": chosen.frontend if chosen else None,
        **(known if searched else dict.fromkeys(known)),
        **dict.fromkeys(f"speedup_vs_default{end}" for end in _ENDS),
        "kept": None,
        "why": None,
    }


def _gain(tuned: Record, default: Record) -> Record:
    """The speed-up of a tuned row, and whether it is kept."""
    if not tuned["latency"]:
        ended = tuned["outcome"]
        return {"kept": False, "why": f"no latency: {ended['status']}: {ended['detail']}"}
    if not default["latency"]:
        if default["tuning"]["candidate"] is None:
            return {"kept": True, "why": "nothing that is configured has a verified latency"}
        ended = default["outcome"]
        why = f"no latency of the row default to compare with: {ended['status']}: {ended['detail']}"
        return {"kept": False, "why": why}
    if tuned["tuning"]["candidate"] == default["tuning"]["candidate"]:
        return {"kept": False, "why": "what is configured was the fastest"}
    both = (default["latency"], tuned["latency"])
    difference = speedups.difference(*both)
    if difference is None:
        why = tuned["latency"]["doubt"] or default["latency"]["doubt"]
        return {"kept": False, "why": f"no interval: {why}"}
    between = difference.interval()
    kept = between.verdict == ratios.FASTER
    return {
        "speedup_vs_default": between.ratio if between.is_known else None,
        "speedup_vs_default_low": between.low,
        "speedup_vs_default_high": between.high,
        "kept": kept,
        "why": "faster than what is configured" if kept else "no gain beyond its interval",
    }
