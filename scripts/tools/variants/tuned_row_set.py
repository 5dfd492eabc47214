"""The row set results/tuned.csv: its records, its page results/tuned.md, and the results beside it that `tuned: auto` uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from scripts.config import stages
from scripts.config.cell import PINNED, Cell, Kind
from scripts.config.entries import AS_CONFIGURED, TUNED
from scripts.config.rows import Matrix
from scripts.config.stages import REPORT
from scripts.core import atomic
from scripts.iree.backends import BACKENDS
from scripts.measure.timing import ratios
from scripts.results import columns, record, speedups, stage_files, wording
from scripts.results.columns import (
    FLAG,
    FROM_0,
    FROM_1,
    INTEGER,
    NUMBER,
    OBJECT,
    POSITIVE,
    TEXT,
    Field,
)
from scripts.results.page_sections import Section, as_markdown
from scripts.results.record import VERSIONS_OF_EVERY_RECORD, iree_versions
from scripts.results.results_file import Form
from scripts.results.results_table import Table
from scripts.results.row_set import Content, RowSet
from scripts.results.screen import Printed
from scripts.run import outputs
from scripts.run.outputs import Result
from scripts.supervise import outcome
from scripts.tools.variants import candidates, variants_plan
from scripts.tools.variants.candidates import NOT_APPLICABLE, OUT_OF_BUDGET, Line, Report

OWN = (
    Field("tuning", OBJECT, "What tuning has tried and found; null for a baseline.", nullable=True),
    Field("tuning.candidate", TEXT, "Candidate of the row: lowering path, opt level, flag set and preprocessing; null if none has passed.", column="candidate", nullable=True),
    Field("tuning.frontend", TEXT, "Frontend of its program.", column="frontend_used", nullable=True),
    Field("tuning.candidates", INTEGER, "Candidates, among them those that do not apply to the program.", unit="count", column="candidates", nullable=True, checks=FROM_1),
    Field("tuning.compiled", INTEGER, "Candidates that compiled, also to the module of another one.", unit="count", column="candidates_compiled", nullable=True, varies=True, checks=FROM_0),
    Field("tuning.verified", INTEGER, "Different modules that were verified and timed.", unit="count", column="modules_verified", nullable=True, varies=True, checks=FROM_0),
    Field("tuning.failed", INTEGER, "Candidates that failed to compile, crashed, hung or computed wrong results.", unit="count", column="candidates_failed", nullable=True, varies=True, checks=FROM_0),
    Field("tuning.seconds", NUMBER, "Time that tuning took; compilations are divided by how many ran at a time.", unit="s", column="tuning_s", nullable=True, varies=True, checks=FROM_0),
    Field("tuning.speedup_vs_default", NUMBER, "Latency of the row `default` / latency of the row `tuned`.", unit="ratio", column="speedup_vs_default", nullable=True, varies=True, checks=POSITIVE),
    Field("tuning.speedup_vs_default_low", NUMBER, "Lower end of its 99 % interval.", unit="ratio", column="speedup_vs_default_low", nullable=True, varies=True, checks=POSITIVE),
    Field("tuning.speedup_vs_default_high", NUMBER, "Its upper end.", unit="ratio", column="speedup_vs_default_high", nullable=True, varies=True, checks=POSITIVE),
    Field("tuning.kept", FLAG, "Whether the gain is beyond its interval, so that `tuned: auto` uses the result.", column="kept", nullable=True, varies=True),
    Field("tuning.why", TEXT, "Why it is kept or not.", column="kept_why", nullable=True, varies=True),
)  # fmt: skip
"""The section `tuning` of a line of results/tuned.jsonl."""

_LEFT_OUT = ("frontend_used", "remedy", "first_error", "first_error_detail", "tried", "tuned")
"""Columns of latency.csv that mean nothing here, or that this table has a separate column for."""

COLUMNS = (
    *(column for column in columns.COLUMNS if column.column not in _LEFT_OUT),
    *(column for column in OWN if column.column),
)
"""The columns of results/tuned.csv, in order."""

Record = dict[str, Any]
Row = Mapping[str, Any]
"""A record that is shown."""
Reports = Mapping[tuple[str, str], Report]
"""The reports of tuning by model and target."""


def tuned_records(matrix: Matrix, root: Path = Path()) -> tuple[list[Record], Reports]:
    """The records of all tuned rows, then of the baselines that they are compared with; and the reports.

    Raises ValueError if the file with the limits of a device has another form.
    """
    by_row = {row: _tuned_record(root, matrix, row) for row in variants_plan.rows(matrix)}
    reports = {(row.model, row.target): report for row, (_, report) in by_row.items() if report}
    baselines = [
        record.baseline_record(root, matrix, matrix.models[cell.model], matrix.baselines[cell.baseline], cell.test, "time_tuned")
        for cell in variants_plan.baselines(matrix)
    ]  # fmt: skip
    rows = [*(row_record for row_record, _ in by_row.values()), *baselines]
    record.compare(rows, variants_plan.devices(matrix), root)
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
    model, target = matrix.models[row.model], variants_plan.part(matrix).targets[row.target]
    target = target.for_model(model)
    common = record.common_record(
        root, matrix, row, matrix.chain(row), model, target.device_kind, "time_tuned"
    )
    values = stage_files.read_if_whole(root, stages.STAGES["tune"], row.to(Kind.TUNING), REPORT)
    searched = candidates.read(values) if values else None
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


NOT_TRIED = (NOT_APPLICABLE, OUT_OF_BUDGET)
"""Reasons of candidates that are counted and not listed; there may be dozens."""

FOUND = """\
Milliseconds per call, timed in turns with each other after tuning. *Default* is the fastest of what the target compiles
anyway, *tuned* the fastest candidate. The gain is their ratio with its 99 % interval. It is kept if the interval is above 1.
"""
CANDIDATES = """\
Milliseconds in the search, and how many times faster than the default, with 99 % intervals. All verified modules were timed
in turns, and slow ones left: a module of few generations has no interval. The table above has the results that count.
"""
HEAD = ("model", "target", "eager", "inductor", "default", "tuned", "gain", "kept", "candidate", "verified")  # fmt: skip


def page(records: Sequence[Row], reports: Reports) -> str:
    """Return the whole page as Markdown."""
    table = Table.of_records(records)
    sections = [
        Section("", HEAD, [*found_rows(records)], range(2, 7), FOUND),
        Section("Measured with", lines=table.provenance.measured_with),
        Section("Candidates", note=CANDIDATES, parts=[_candidates(*each) for each in reports.items()]),
    ]  # fmt: skip
    return "\n".join([wording.head("Tuned models", table), as_markdown(sections)])


def found_rows(records: Sequence[Row]) -> Iterator[list[str]]:
    """Yield what was found for each model and target, as cells under HEAD."""
    rows = {
        (
            record["model"]["name"],
            record["experiment"]["frontend"],
            record["experiment"]["target"],
        ): record
        for record in records
    }
    baselines = {
        (
            record["model"]["name"],
            record["experiment"]["runtime"],
            record["experiment"]["device"],
        ): record
        for record in reversed(records)  # the first one of several counts
    }
    for (model, frontend, target), tuned in rows.items():
        if frontend != TUNED:
            continue
        tuning = tuned["tuning"]
        device = BACKENDS[tuned["experiment"]["backend"]].torch_device
        beside = [baselines.get((model, runtime, device)) for runtime in ("eager", "inductor")]
        count = tuning["candidates"]
        yield [
            model,
            target,
            *map(_ms, (*beside, rows[model, AS_CONFIGURED, target], tuned)),
            _gain_cell(*(tuning[f"speedup_vs_default{end}"] for end in ("", "_low", "_high"))),
            "yes" if tuning["kept"] else f"no: {tuning['why']}",
            tuning["candidate"] or "",
            "" if count is None else f"{tuning['verified']} of {count}",
        ]


def _ms(record: Row | None) -> str:
    if record is None:
        return wording.NOT_IN_MATRIX
    if record["latency"]:
        return wording.milliseconds(record["latency"]["ms"])
    ended = record["outcome"]
    return "skipped" if ended["status"] == outcome.SKIPPED else ended["reason"]


def _gain_cell(ratio: float | None, low: float | None, high: float | None) -> str:
    if low is None:
        return ""
    return f"{wording.UNKNOWN if ratio is None else f'{ratio:.2f}'} ({low:.2f} to {high:.2f})"


def _candidates(names: tuple[str, str], report: Report) -> Section:
    """The candidates of a search, and how many were not tried, by reason. `names`: of the model and the target."""
    rest = Counter(
        (line.reason, line.detail) for line in report.candidates if line.reason in NOT_TRIED
    )
    return Section(
        " on ".join(names),
        ("candidate", "ms", "gain", "generations", "outcome"),
        [_candidate(line) for line in report.candidates if line.reason not in NOT_TRIED],
        note=f"{report.compile_s + report.measure_s:.0f} of {report.budget_s:g} s.",
        lines=[f"{count} not tried ({reason}): {detail}" for (reason, detail), count in rest.items()],
    )  # fmt: skip


def _candidate(line: Line) -> list[str]:
    name = f"{line.name} (configured)" if line.configured else line.name
    timed, timing = ("", "", ""), line.timing
    if timing:
        ms = wording.milliseconds(timing.ms)
        if timing.low_ms and timing.high_ms:
            low, high = map(wording.milliseconds, (timing.low_ms, timing.high_ms))
            ms += f" ({low} to {high})"
        gain = _gain_cell(timing.speedup, timing.speedup_low, timing.speedup_high)
        timed = (ms, gain, str(timing.generations))
    is_ok = line.status == outcome.OK
    ended = "verified" if is_ok else f"{line.status} ({line.reason}): {line.detail}"
    if line.same_as:
        ended += f"; the module of {line.same_as}"
    return [name, *timed, ended[:300]]


YAML_HEAD = (
    "# Made by the target results/tuned.csv (docs/tuning.md); used by targets with `tuned: auto`.\n"
)


def content(matrix: Matrix, folder: Path) -> Content:
    if not variants_plan.part(matrix).targets:
        raise ValueError("the configuration selects no target to tune for; set tune.targets")
    rows, reports = tuned_records(matrix)

    def write_results(records: list[Record]) -> None:
        for result in results(records):
            shown = yaml.safe_dump(msgspec.to_builtins(result), sort_keys=False, width=100)
            path = outputs.path_of(result.model, result.target, folder / outputs.FOLDER.name)
            atomic.write_text(path, YAML_HEAD + shown)

    return Content(rows, lambda records: page(records, reports), write_results)


ROW_SET = RowSet(
    name="tuned",
    jsonl=outputs.files_of("tuned")[2],
    about="For every tuned model and target the rows `tuned` and `default`, and the rows of eager and inductor. The other columns are those of `latency.csv`. `tuned.jsonl` has all sections of `results.jsonl`, and the section `tuning`.",
    declared_in="scripts/tools/variants/tuned_row_set.py",
    form=Form("results/tuned.csv", (*columns.FIELDS, *OWN)),
    columns=COLUMNS,
    described=OWN,
    content=content,
    screen=lambda records: Printed(
        [Section("Tuned models", HEAD, [*found_rows(list(records))], range(2, 7))]
    ),
)
