"""Makes the records of results/tuned.csv, and the results that `tuned: auto` uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.features.variants import tuned_matrix, tuning
from scripts.features.variants.search import report
from scripts.features.variants.search.report import Line, Report
from scripts.features.variants.tuning import AS_CONFIGURED, TUNED, Result
from scripts.matrix import stages
from scripts.matrix.cell import Cell, Kind
from scripts.matrix.matrix import Matrix
from scripts.matrix.stage import REPORT
from scripts.matrix.toolchains import PINNED
from scripts.records import record, speedups, stage_files, versions
from scripts.supervise import outcome
from scripts.timing import ratios

Record = dict[str, Any]
Reports = Mapping[tuple[str, str], Report]
"""The reports of tuning by model and target."""


def records(matrix: Matrix, root: Path = Path()) -> tuple[list[Record], Reports]:
    """The records of all tuned rows, then of the baselines that they are compared with; and the reports.

    Raises ValueError if the file with the limits of a device has another form.
    """
    made = {row: tuned_record(root, matrix, row) for row in tuned_matrix.rows(matrix)}
    reports = {(row["model"], row["target"]): found for row, (_, found) in made.items() if found}
    baselines = [
        record.baseline_record(root, matrix, matrix.models[of["model"]], matrix.baselines[of["baseline"]], of["test"], "time_tuned")
        for of in tuned_matrix.baselines(matrix)
    ]  # fmt: skip
    found = [*(one for one, _ in made.values()), *baselines]
    record.compare(found, tuned_matrix.devices(matrix), root)
    for one in baselines:
        one["tuning"] = None
    for row, (one, searched) in made.items():
        one["tuning"] = _section(row, searched)
    _add_gains({row: one for row, (one, _) in made.items()})
    return found, reports


def tuned_record(root: Path, matrix: Matrix, row: Cell) -> tuple[dict, Report | None]:
    """The record of a row of results/tuned.csv, and the report of its tuning (None: there is none)."""
    model, target = matrix.models[row["model"]], tuned_matrix.part(matrix).targets[row["target"]]
    target = target.of(model)
    made = record.common_record(
        root, matrix, row, matrix.chain(row), None, model, target.device_kind, "time_tuned"
    )
    found = stage_files.read_if_whole(root, stages.STAGES["tune"], row.to(Kind.TUNING), REPORT)
    searched = report.read(found) if found else None
    chosen = searched and searched.of(
        searched.tuned if row["frontend"] == TUNED else searched.default
    )
    made["versions"] = dict.fromkeys(versions.OF_EVERY_RECORD) | made["versions"]
    if chosen:
        spec = tuning.spec_flags(model.name, row["target"], chosen.spec)
        target = replace(target, opt_level=chosen.opt_level, flags=(*chosen.flags, *spec))
        made["compile"] = chosen.compile
        exported = Cell.of(Kind.PROGRAM, model=model.name, frontend=chosen.frontend)
        record.add_export(root, matrix, made, exported, matrix.frontends[chosen.frontend])
    made["experiment"] |= {
        "test": "eval",
        "tuned": None,
        "toolchain": PINNED,
    } | record.of_target(row, target)
    made["versions"] |= versions.iree(root, matrix, target.env, made["versions"]["iree"])
    return made, searched


_NO_RESULT = (outcome.UNAVAILABLE, outcome.SKIPPED, outcome.DAMAGED)


def results(found: Sequence[Mapping[str, Any]]) -> Iterator[Result]:
    """Yield the result of each model and target, from the records.

    If one of the two modules was not measured because there is no such device, because something else failed, or for a
    reason that passes, there is no result: an earlier one stays.
    """
    for one in found:
        experiment, of = one["experiment"], one["tuning"]
        if experiment["frontend"] != TUNED or one["outcome"]["status"] in _NO_RESULT:
            continue
        compared = next(_alike(one, found, AS_CONFIGURED))
        if any(row["outcome"]["reason"] in outcome.PASSING for row in (one, compared)):
            continue
        latency, default = (row["latency"] or {} for row in (one, compared))
        yield Result(
            model=one["model"]["name"],
            target=experiment["target"],
            options=one["model"]["options"],
            kept=of["kept"],
            why=of["why"],
            frontend=of["frontend"],
            opt_level=experiment["opt_level"] if of["frontend"] else None,
            flags=tuple(experiment["flags"]) if of["frontend"] else (),
            backend=experiment["backend"],
            arch=experiment["arch"],
            device=experiment["device_uri"],
            device_name=one["run"]["device_name"],
            threads=one["run"]["threads"],
            versions={k: v for k, v in one["versions"].items() if v and not k.endswith("_build")},
            latency_ms=latency.get("ms"),
            default_ms=default.get("ms"),
            speedup=of["speedup_vs_default"],
            speedup_low=of["speedup_vs_default_low"],
            speedup_high=of["speedup_vs_default_high"],
        )


def _alike(
    of: Mapping[str, Any], found: Sequence[Mapping[str, Any]], frontend: str
) -> Iterator[Mapping[str, Any]]:
    """Yield the record of the other row of the same model and target."""
    for one in found:
        same = one["model"]["name"] == of["model"]["name"]
        experiment = one["experiment"]
        if same and (experiment["frontend"], experiment["target"]) == (
            frontend, of["experiment"]["target"],
        ):  # fmt: skip
            yield one


def _section(row: Cell, report: Report | None) -> Record:
    """The section `tuning` of a row, without its gain."""
    found: Record = dict.fromkeys(
        (
            *("candidate", "frontend", "candidates", "compiled", "verified", "failed", "seconds"),
            *("speedup_vs_default", "speedup_vs_default_low", "speedup_vs_default_high"),
            *("kept", "why"),
        )
    )
    if report is None:
        return found
    chosen = report.of(report.tuned if row["frontend"] == TUNED else report.default)
    lines = report.candidates
    return found | {
        "candidate": chosen.name if chosen else None,
        "frontend": chosen.frontend if chosen else None,
        "candidates": len(lines),
        "compiled": sum(is_compiled(one) for one in lines),
        "verified": sum(one.status == outcome.OK and not one.same_as for one in lines),
        "failed": sum(one.status in outcome.FAILED and not one.same_as for one in lines),
        "seconds": report.compile_s + report.measure_s,
    }


def is_compiled(one: Line) -> bool:
    """Whether a candidate has a module."""
    return one.step != "compile" or one.status == outcome.OK


def _add_gains(rows: Mapping[Cell, Record]) -> None:
    """Compare each row `tuned` with the row `default` of the same model and target."""
    for row, one in rows.items():
        if row["frontend"] != TUNED:
            continue
        other = Cell.of(row.kind, **{**row.by_axis(), "frontend": AS_CONFIGURED})
        one["tuning"] |= _gain(one, rows[other])


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
    found = speedups.difference(*both)
    if found is None:
        why = tuned["latency"]["doubt"] or default["latency"]["doubt"]
        point = {"speedup_vs_default": speedups.point(*both)}
        return point | {"kept": False, "why": f"no interval: {why}"}
    between = found.interval()
    kept = between.verdict == ratios.FASTER
    return {
        "speedup_vs_default": between.ratio,
        "speedup_vs_default_low": between.low,
        "speedup_vs_default_high": between.high,
        "kept": kept,
        "why": "faster than what is configured" if kept else "no gain beyond its interval",
    }
