"""Make the record of every operator problem on every lowering path and baseline.

A record is a line of results/operators/operators.jsonl and a row of results/operators.csv. Its
status, stage, reason and detail are those of the first stage in its chain that failed, as in the
records of models. columns.py describes each value.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from scripts.config import plugins
from scripts.config.cell import EVAL, Cell, Kind
from scripts.config.rows import Matrix
from scripts.config.stages import IREE_ENV, OUTCOMES, STAGES, STATUS, Stage
from scripts.core import atomic
from scripts.core.version import VERSION
from scripts.measure.timing.group_timing import GroupTiming
from scripts.measure.verify import verification
from scripts.results import latency_section, speedups, stage_files
from scripts.results import record as of_model
from scripts.results.columns import names
from scripts.results.record import add_versions, pinned_versions
from scripts.results.row_set import Content, RowSet
from scripts.results.screen import Printed
from scripts.run import fingerprint, outputs
from scripts.run.environments import COMPILER
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome, ProblemEnd
from scripts.tools.operators.batch.timing import member_outcome
from scripts.tools.operators.operators_plan import part
from scripts.tools.operators.problems.problem import Problem, read_problems
from scripts.tools.operators.report import columns, faults, page
from scripts.tools.operators.report.analysis import Table
from scripts.tools.operators.report.columns import FIELDS
from scripts.tools.report.web.page_source import of_set

OVERHEAD = 1.3
"""BackendBench's bound: a call that takes less than this times an empty call is mostly overhead."""

Record = dict[str, Any]

_KEYS = {
    section: names(FIELDS, section)
    for section in ("problem", "reference", "outcome", "verification", "run", "export", "compile")
}
_OF_OUTCOME = [name for name in _KEYS["outcome"] if name not in ("stale", "fault")]
_NOT_OF_STAGE = ("seconds", "host_overhead_ms", "overhead_here")
_OF_RUN = [name for name in _KEYS["run"] if name not in _NOT_OF_STAGE]


@dataclass(frozen=True)
class Row:
    """The rows of one batch on one lowering path, or under one baseline.

    `cell`: the batch and the path or baseline. `experiment`: their section of that name. `tool`: the exporter or
    runtime. `versions`: the versions that the environments of the row pin. `code`: the hash of the code of the last
    stage. `ends`: the outcome of each stage of the chain, by problem, in order. `group`: the group in which they were timed,
    and `timed`, the outcome by problem; empty if they are only compiled.
    """

    cell: Cell
    experiment: Mapping[str, Any]
    tool: str
    versions: Mapping[str, str | None]
    code: str
    ends: Sequence[tuple[Stage, Mapping[str, ProblemEnd]]]
    group: str = ""
    timed: Mapping[str, ProblemEnd] = field(default_factory=dict)


def of_batch(root: Path, matrix: Matrix, batch: str, problems: Sequence[Problem]) -> list[Record]:
    """Return the records of a batch, by problem: first IREE's, then the baselines'."""
    listed = [problem.name for problem in problems]

    @functools.cache
    def ends(stage: str, cell: Cell) -> Mapping[str, ProblemEnd]:
        return ended_in(root, STAGES[stage], cell, listed)

    rows: dict[str, Row] = {}
    for cell in part(matrix).rows():
        if cell.batch == batch:
            row = _row(matrix, cell, [(s, ends(s.name, c)) for s, c in matrix.chain(cell)])
            if row.ends[-1][0].measures:
                stage, group = matrix.timed(cell)
                row = replace(row, group=str(group), timed=ends(stage.name, group))
            rows[str(cell)] = row
    records = []
    for problem in problems:
        of_problem = [_record(root, problem, row, rows) for row in rows.values()]
        speedups.add_speedups(
            of_problem, lambda r: (r["experiment"]["precision"], *speedups.device_of(r))
        )
        _add_overhead(of_problem)
        records += of_problem
    return records


def _row(matrix: Matrix, cell: Cell, ends: Sequence[tuple[Stage, Mapping[str, ProblemEnd]]]) -> Row:
    operators = part(matrix)
    pinned: Record = {"versions": {}}
    if cell.kind is Kind.BATCH_IREE:
        frontend, target = operators.frontends[cell.frontend], operators.targets[cell.target]
        experiment = of_model.of_target(cell, target) | {
            "device": target.device_kind,
            "exporter": frontend.exporter,
            "exporter_options": frontend.options,
        }
        pinned["versions"]["iree"] = pinned_versions(matrix, IREE_ENV).get(COMPILER)
        tool, env = frontend.exporter, frontend.env
        declared = plugins.exporter(tool).versions
    else:
        baseline = operators.baselines[cell.baseline]
        experiment = of_model.of_baseline(cell, baseline) | {
            "device": baseline.device,
            "precision": baseline.precision,
        }
        tool, env = baseline.runtime, baseline.env
        declared = plugins.runtime(tool).versions
    add_versions(pinned, pinned_versions(matrix, env), declared, {})
    code = str(ends[-1][0].version)
    return Row(cell, experiment, tool, pinned["versions"], code, ends)


def _record(root: Path, problem: Problem, row: Row, rows: Mapping[str, Row]) -> Record:
    """Return the record of a problem in a row. `rows`: all rows of the batch by their cells."""
    ends = [(stage, lines[problem.name]) for stage, lines in row.ends]
    chain = [end.outcome for _, end in ends]
    last, line = ends[-1][1], row.timed.get(problem.name)
    timing: GroupTiming | None = None
    if line and last.outcome.status == outcome.OK:
        ended = member_outcome(line, str(row.cell))
        if ended.status == outcome.OK:
            timing = msgspec.convert(line.result["timing"], GroupTiming)
        else:
            chain.append(ended)
    decisive = stage_files.deciding(root, chain)
    results = {stage.name: end.result for stage, end in ends}
    whole = ends[-1][0].measures and decisive.status != outcome.DAMAGED
    measured = last.result if whole and "verification" in last.result else {}
    reference = _taken("reference", results["operator_reference"])
    is_iree = "operator_compile" in results
    empty_ms = line.result.get("empty_ms", {}).get(str(row.cell)) if line else None
    found_versions = {
        key: value.partition("+")[0] for key, value in measured.get("versions", {}).items() if value
    }
    return {
        "problem": _listed({key: getattr(problem, key) for key in _KEYS["problem"]}),
        "dataset": _listed(vars(problem.facts)) if problem.facts else None,
        "experiment": dict(row.experiment),
        "reference": reference,
        "outcome": _outcome(decisive, last.outcome, row, line.outcome if line and timing else None),
        "verification": _verification(decisive, measured),
        "latency": _latency(problem, row, timing, rows, reference) if timing else None,
        "run": {key: (measured or last.result).get(key) for key in _OF_RUN}
        | {"seconds": last.seconds, "overhead_here": None, "host_overhead_ms": empty_ms},
        "export": _taken("export", results["operator_export"]) if is_iree else None,
        "compile": _taken("compile", results["operator_compile"]) if is_iree else None,
        "versions": {**row.versions, **found_versions},
        "vmfbench": VERSION,
    }


def _listed(values: Mapping[str, Any]) -> Record:
    return {key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}


def _taken(section: str, result: Mapping[str, Any]) -> Record:
    return {key: result[key] for key in _KEYS[section] if key in result}


def _outcome(decisive: Outcome, last: Outcome, row: Row, timed_by: Outcome | None) -> Record:
    fault = ""
    if decisive.status not in (outcome.OK, outcome.SKIPPED):
        fault = faults.of_outcome(decisive, row.tool)
    timing_code = str(STAGES["operator_time"].version)
    stale = decisive.status == outcome.OK and (
        fingerprint.is_stale(last, row.code)
        or (timed_by is not None and fingerprint.is_stale(timed_by, timing_code))
    )
    return {key: getattr(decisive, key) for key in _OF_OUTCOME} | {
        "blocked_by": last.blocked_by,
        "fault": fault,
        "stale": stale,
    }


def _verification(decisive: Outcome, measured: Mapping[str, Any]) -> Record:
    """Return the comparison with eager, or the code that says why there is none."""
    if measured:
        more = {key: measured.get(key) for key in ("max_rel_error", "backendbench_correct")}
        return _taken("verification", measured["verification"]) | more
    # The codes are those of the stages of models, which have the same names without `operator_`.
    code = outputs.code_of_unmeasured(
        replace(decisive, stage=decisive.stage.removeprefix("operator_"))
    )
    detail = {"detail": decisive.detail} if code == verification.SKIPPED else {}
    return {"code": code, "backendbench_correct": None} | detail


def _latency(
    problem: Problem,
    row: Row,
    timing: GroupTiming,
    rows: Mapping[str, Row],
    reference: Mapping[str, Any],
) -> Record:
    anchor = None
    if timing.anchor:
        verified = rows[timing.anchor].ends[-1][1][problem.name].result
        anchor = latency_section.anchor_text(timing.anchor, verified.get("versions", {}))
    group, member = f"{row.group}: {problem.name}", str(row.cell)
    latency = latency_section.of_timing(timing, group, member, EVAL, None, 1, anchor)
    ms = latency["ms"]
    moved, flops = reference.get("bytes"), reference.get("flops")
    return latency | {
        "gb_per_s": moved / ms * 1e-6 if moved else None,
        "gflop_per_s": flops / ms * 1e-6 if flops else None,
    }


def _add_overhead(of_problem: Sequence[Record]) -> None:
    """Add whether eager's latency is mostly overhead, to all rows of a problem by their device."""
    is_overhead: dict[str, bool] = {}
    for record in of_problem:
        run = record["run"]
        if record["experiment"]["runtime"] == "eager" and record["latency"] and run["host_overhead_ms"]:  # fmt: skip
            device = speedups.device_of(record)[0]
            is_overhead[device] = record["latency"]["ms"] < OVERHEAD * run["host_overhead_ms"]
    for record in of_problem:
        record["run"]["overhead_here"] = is_overhead.get(speedups.device_of(record)[0])


def ended_in(
    root: Path, stage: Stage, batch: Cell, problems: Sequence[str]
) -> dict[str, ProblemEnd]:
    """Return the outcome of a stage for the problems of a batch, by their names. If the job of the batch failed before it
    came to a problem, the outcome is that of the job. If the file is damaged, all outcomes are `damaged`."""
    job = outcome.read_or_damaged(root / stage.path(batch, STATUS))
    path = root / stage.path(batch, OUTCOMES)
    lines: dict[str, ProblemEnd] = {}
    damaged = ""
    # The file of a failed stage is empty.
    if job.status != outcome.DAMAGED and path.is_file() and path.stat().st_size > 0:
        try:
            lines = _whole(stage, path, problems if job.status == outcome.OK else ())
        except (OSError, ValueError) as error:
            damaged = str(error)
    elif job.status == outcome.OK:
        damaged = f"{path} is missing or empty; the next run makes it again"
    if damaged:
        reason = outcome.DAMAGED_FILE
        job = replace(job, status=outcome.DAMAGED, reason=reason, detail=damaged)
    return {name: lines.get(name) or ProblemEnd(name, job) for name in problems}


def _whole(stage: Stage, path: Path, wanted: Sequence[str]) -> dict[str, ProblemEnd]:
    """Return the lines of a file. Raises OSError or ValueError if it is damaged."""
    if what := outcome.difference(path):
        raise ValueError(what)
    lines = outcome.read_problem_ends(path)
    if left := [name for name in wanted if name not in lines]:
        raise ValueError(f"{path}: no line of {left[0]}; the next run makes it again")
    for line in lines.values() if stage.measures else ():
        what = ""
        if "timing" in line.result:
            what = stage_files.problem(STAGES["time"], line.result["timing"])
        elif "verification" in line.result:
            what = stage_files.problem(stage, line.result)
            what = what or stage_files.contradiction(line.result, line.outcome.status)
        if what:
            raise ValueError(f"{path}: {line.problem}: {what}; the next run makes it again")
    return lines


def content(matrix: Matrix, folder: Path) -> Content:
    source = atomic.read_json(folder / "operators" / "source.json")
    return Content(_all_records(matrix), lambda records: page.page(Table(records), source))


def _all_records(matrix: Matrix, root: Path = Path()) -> Iterator[Mapping[str, Any]]:
    for batch in part(matrix).batch_names():
        listed = root / f"results/operators/batches/{batch}.jsonl"
        yield from of_batch(root, matrix, batch, read_problems(listed))


ROW_SET = RowSet(
    name="operators",
    jsonl=columns.JSONL,
    about="One row for every operator problem on every lowering path and target, and under every baseline.\n`operators.jsonl` is in `results/operators/`.",
    declared_in="scripts/tools/operators/report/columns.py",
    form=columns.FORM,
    columns=columns.COLUMNS,
    described=columns.FIELDS,
    content=content,
    screen=lambda records: Printed(page.on_screen(Table(records))),
    is_large=True,
)
VIEWS = (of_set(ROW_SET, "Operators", "No operators were run", page.view),)
