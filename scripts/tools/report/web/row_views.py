"""The data of the views that show the rows of results.jsonl.

Thread scaling is the parallel efficiency of each model, by path: that of n threads is latency(fewest) × fewest / (latency(n) × n), where `fewest` is the smallest number of
threads with a latency. It is 1 if twice the threads take half the time. Rows of different numbers of threads are timed one
group after the other, so its interval is that of two independent latencies: it does not contain what changes between groups.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.config import compile_tables, stages
from scripts.config.cell import EVAL, TRAIN
from scripts.config.stages import STAGES, status_path
from scripts.iree.backends import compile_flags, renamed
from scripts.measure.timing import ratios
from scripts.measure.timing.ratios import Interval
from scripts.results import latency_page, page_sections, speedups, wording
from scripts.results.columns import lookup
from scripts.results.page_sections import Chart, Line, Section, Styled
from scripts.results.results_table import ModelRows, in_order
from scripts.results.row import Column, Row, Timing
from scripts.results.wording import NOT_IN_MATRIX, mebibytes, number, seconds, size
from scripts.supervise import outcome
from scripts.supervise.diagnose import failure_signature
from scripts.supervise.outcome import Outcome
from scripts.tools.report.web.page_source import FAILED_CHARS, Record, Run, Source, end_of

Key = tuple[str, str, str]
"""What the failures of a cluster have in common: stage, reason and signature."""


@dataclass(frozen=True)
class Cluster:
    """Failures of one cause. `example`: the record of the first row. `blocks`: (model, target) for which nothing but this
    cause fails, with the remedies that compile them all the same."""

    stage: str
    reason: str
    signature: str
    rows: tuple[Row, ...]
    example: Record
    blocks: Mapping[tuple[str, str], str]

    @property
    def is_made_good(self) -> bool:
        """Whether remedies have compiled all its rows."""
        return all(row.remedy for row in self.rows)


def command(record: Record, failed: Outcome) -> str:
    """Return the shortest command that shows the failure of a row.

    For a compilation it is that of iree-compile. The other stages have no such tool; their own
    command is returned.
    """
    experiment = record["experiment"]
    if failed.stage != "compile":
        own: str = record["outcome"].get("command", "")
        return own
    program = stages.STAGES["export"].path(
        f"{record['model']['name']}/{experiment['frontend']}", "program.mlir"
    )
    configured = compile_flags(
        experiment["backend"],
        experiment.get("arch"),
        experiment.get("opt_level"),
        experiment.get("flags") or (),
    )
    flags = renamed(configured, record["versions"].get("iree") or "")
    return shlex.join(["iree-compile", *flags, program, "-o", "module.vmfb"])


def clusters(records: Sequence[Record]) -> list[Cluster]:
    """Return the clusters of all failures: first those that nothing made good, the one that alone blocks
    most first."""
    rows = [Row.of_record(record) for record in records]
    places: dict[Key, list[int]] = {}
    for place, row in enumerate(rows):
        if ended := row.failed:
            key = ended.stage, ended.reason, failure_signature(ended.detail)
            places.setdefault(key, []).append(place)
    blocked = _blocked(rows, {key: [rows[n] for n in at] for key, at in places.items()})
    grouped = [
        Cluster(*key, tuple(rows[n] for n in at), records[at[0]], blocked.get(key, {}))
        for key, at in places.items()
    ]
    return sorted(
        grouped,
        key=lambda cluster: (
            cluster.is_made_good,
            -len(cluster.blocks),
            -len(cluster.rows),
            cluster.reason,
        ),
    )


def _blocked(
    rows: Sequence[Row], failed: Mapping[Key, Sequence[Row]]
) -> dict[Key, dict[tuple[str, str], str]]:
    """Return, by cluster, the (model, target) all of whose lowering paths fail for its reason alone."""
    every = Counter((row.model, row.column.target) for row in rows if row.column.target)
    blocked: dict[Key, dict[tuple[str, str], str]] = {}
    for key, failed_rows in failed.items():
        remedies: dict[tuple[str, str], list[str]] = {}
        for row in failed_rows:
            remedies.setdefault((row.model, row.column.target), []).append(row.remedy)
        blocked[key] = {
            place: ", ".join(dict.fromkeys(filter(None, names)))
            for place, names in remedies.items()
            if len(names) == every[place]
        }
    return blocked


Numbered = dict[int, Row]
"""The rows of a line by their number of threads."""
Shown = tuple[float, float | None, float | None]
"""A value, and the ends of its interval."""


@dataclass(frozen=True)
class ScalingPoint:
    """A row of a line. `efficiency` is None without a latency, and where it is not known (Interval.is_known); `interval` is its 99 % interval, None for the
    fewest threads and where one of the two latencies has none."""

    threads: int
    row: Row
    efficiency: float | None = None
    interval: Interval | None = None

    @property
    def latency(self) -> Shown | None:
        """The milliseconds."""
        timing = self.row.timing
        return (timing.ms, *(timing.ends_ms or (None, None))) if timing else None

    @property
    def percent(self) -> Shown | None:
        """The efficiency in percent."""
        ends = (self.interval.low, self.interval.high) if self.interval else (None, None)
        low, high = (end and 100 * end for end in ends)
        return (100 * self.efficiency, low, high) if self.efficiency else None


def scaling_lines(of_model: ModelRows) -> dict[str, list[ScalingPoint]]:
    """Return the rows of a model by path, those of several numbers of threads, with the fewest threads first. A path that was timed on several CPUs
    has a line for each, which has the failures of the path too: these may have been on any CPU."""
    timed: dict[Column, dict[str, Numbered]] = defaultdict(lambda: defaultdict(dict))
    failed: dict[Column, Numbered] = defaultdict(dict)
    for row in of_model.entries.values():
        shared = Column.of_cell(row.cell.without("threads"))
        if at := row.conditions:
            cpu = " of ".join(filter(None, (at.device_name, at.machine)))
            if at.threads:
                timed[shared][cpu][at.threads] = row
        elif count := row.cell.threads:
            failed[shared][count] = row
    lines = {}
    for column in dict.fromkeys((*timed, *failed)):
        for cpu, rows in (timed[column] or {"": {}}).items():
            on_cpu = f" ({cpu})" if len(timed[column]) > 1 else ""
            points = list(_scaling_points(failed[column] | rows))
            if len(points) > 1:
                lines[wording.path(column) + on_cpu] = points
    return lines


def _scaling_points(rows: Numbered) -> Iterator[ScalingPoint]:
    timings = {count: row.timing for count, row in rows.items() if row.timing}
    fewest = min(timings, default=0)
    for count, row in sorted(rows.items()):
        if row.timing is None:
            yield ScalingPoint(count, row)
        elif count == fewest:
            yield ScalingPoint(count, row, 1.0)
        else:
            known = _efficiency(timings[fewest], row.timing, fewest / count)
            yield ScalingPoint(count, row, *known)


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
WITH_MEMORY = {
    "reference": "Reference (PyTorch)",
    "export": "Export (PyTorch → MLIR)",
    "compile": "Compile (iree-compile)",
    "verify": "Verification (IREE)",
    "baseline": "Verification (baselines)",
    "time": "Timing (all rows of a group)",
}
"""Stages whose memory is shown, with their titles."""
PLANNED = {
    "parameters": "reference.weights_bytes",
    "constants": "compile.constant_bytes",
    "intermediate results, packed weights": "compile.transient_bytes",
}
"""What a program needs memory for, with the places of the bytes in a record."""
BY_MODEL = "Milliseconds per call; lines: 99 % intervals. †: its ratios are doubtful, its details say why. Each model has its own scale."
SCALING = """\
Efficiency: latency of the fewest threads × their number, divided by latency × number of threads. It is 100 % if twice the threads take half the time. Numbers
of threads were timed one after the other: what changed between them is not in the 99 % intervals.
"""
STEPS = """\
Latency of a training step (forward pass, loss, backward pass, optimizer), and the share of it that the forward pass alone takes, where it was measured.
Steps: successive steps whose loss is eager's.
"""
SAMPLED = "Resident memory of all processes of a stage together, sampled ten times a second. Vertical lines: what a verification does from there on."


def overview(source: Source) -> dict[str, Any]:
    """Return the map of the matrix (rows, columns, and the index of a record for each place), and as sections what was
    measured with what, and what was not measured."""
    table = source.table
    columns = in_order(table.rows)
    lines = {(line.model, line.test): place for place, line in enumerate(table.rows)}
    sections = page_sections.shown(latency_page.background(table))
    return {
        "sections": [page_sections.to_json(section) for section in sections],
        "columns": [[column.name, column.target] for column in columns],
        "rows": [[line.label, line.size] for line in table.rows],
        "cells": [
            [lines[row.model, row.test], columns.index(row.column), index]
            for index, row in enumerate(source.rows)
        ],
    }


def latency(source: Source) -> dict[str, Any]:
    """Return what the page needs to compute means with intervals over any selection of rows. `quantiles`: pairs (1 / degrees of freedom, quantile)."""
    return {
        "quantiles": [
            [x, ratios.quantile(1 / x if x else 1e9, ratios.CONFIDENCE)] for x in INVERSE_DF
        ],
        "bases": list(wording.BASE_NAMES),
        "byModel": page_sections.to_json(_by_model(source)),
    }


def _by_model(source: Source) -> Section:
    """The latencies of each model, with a chart for each dtype, whose rows cannot be compared."""
    groups: dict[tuple[str, str, str], list[Line]] = defaultdict(list)
    for index, (row, record) in enumerate(zip(source.rows, source.records, strict=True)):
        if row.timing:
            mark = wording.DOUBTFUL if row.timing.doubt else ""
            ends = row.timing.ends_ms or (None, None)
            line = Line(f"{mark}{wording.path(row.column)}", row.column.name, [(0, row.timing.ms, *ends)], index)  # fmt: skip
            groups[row.model, row.test, record["experiment"]["dtype"]].append(line)
    models = Counter((model, test) for model, test, _ in groups)
    charts = [
        Chart(
            model + (f" ({test})" if test != EVAL else "") + (f", {dtype}" if models[model, test] > 1 else ""),
            "ms",
            lines,
            dots=True,
        )
        for (model, test, dtype), lines in groups.items()
    ]  # fmt: skip
    return Section("Latency by model", note=BY_MODEL, charts=charts)


def threads(source: Source) -> list[Section] | None:
    """Return a section per model and test with its paths by number of threads; None if all rows have one number."""
    places = {str(row.cell): index for index, row in enumerate(source.rows)}
    by_model = {rows.label: scaling_lines(rows) for rows in source.table.rows}
    models = [_scaling(model, lines, places) for model, lines in by_model.items() if lines]
    return [Section("", note=SCALING, parts=models)] if models else None


def _scaling(
    model: str, lines: Mapping[str, Sequence[ScalingPoint]], places: Mapping[str, int]
) -> Section:
    points = [(path, point) for path, line in lines.items() for point in line]
    numbers = sorted({point.threads for _, point in points})

    def chart(
        title: str,
        unit: str,
        value: Callable[[ScalingPoint], Shown | None],
        rule: float | None = None,
    ) -> Chart:
        drawn = [
            Line(
                path,
                path,
                [
                    (numbers.index(point.threads), *shown)
                    for point in line
                    if (shown := value(point))
                ],
            )
            for path, line in lines.items()
        ]
        return Chart(
            title,
            unit,
            [line for line in drawn if line.points],
            "threads",
            [*map(str, numbers)],
            rule,
        )

    return Section(
        model,
        ("path", "threads", "latency", "parallel efficiency"),
        [(path, str(point.threads), *_scaling_cells(point)) for path, point in points],
        (1, 2, 3),
        charts=[
            chart("latency", "ms", lambda point: point.latency),
            chart("parallel efficiency", "%", lambda point: point.percent, rule=100),
        ],
        places=[places[str(point.row.cell)] for _, point in points],
    )  # fmt: skip


def _scaling_cells(point: ScalingPoint) -> tuple[str, str]:
    timing, interval = point.row.timing, point.interval
    if timing is None:
        return point.row.why, ""
    ends = f" ({' to '.join(map(wording.milliseconds, timing.ends_ms))})" if timing.ends_ms else ""
    within = f" ({interval.low:.0%} to {interval.high:.0%})" if interval else ""
    known = f"{point.efficiency:.0%}" if point.efficiency else wording.UNKNOWN if interval else wording.NO_INTERVAL  # fmt: skip
    return f"{number(timing.ms, 'ms')}{ends}", f"{known}{within}".replace("%", " %")


def training(source: Source) -> list[Section] | None:
    """Return a section per model with its training steps beside the forward passes of the same path and device; None if none was run."""

    def key(row: Row, record: Record) -> tuple:
        device = speedups.device_of(record)
        return row.model, row.column, record["experiment"]["precision"], *device

    pairs = list(zip(source.rows, source.records, strict=True))
    forward = {key(*pair): pair[0].timing for pair in pairs if pair[0].test == EVAL}
    by_model: dict[str, list[tuple[int, Row, Record]]] = defaultdict(list)
    for index, (row, record) in enumerate(pairs):
        if row.test == TRAIN:
            by_model[row.model].append((index, row, record))
    head = ("path", "step (ms)", "forward pass", "over eager", "over inductor", "steps", "ending")
    sections = [
        Section(
            model,
            head,
            [(wording.path(row.column), *_step(row, record, forward.get(key(row, record)))) for _, row, record in steps],
            range(1, 6),
            parts=_losses(steps),
            places=[index for index, _, _ in steps],
        )
        for model, steps in by_model.items()
    ]  # fmt: skip
    return [Section("", note=STEPS, parts=sections)] if sections else None


def _step(row: Row, record: Record, before: Timing | None) -> Sequence[str]:
    timing, verification = row.timing, record["verification"]
    expected = verification.get("train_expected")
    over = [timing.latency.get(f"speedup_vs_{base}") if timing else None for base in ("eager", "inductor")]  # fmt: skip
    return (
        number(timing.ms if timing else None),
        f"{100 * before.ms / timing.ms:.0f} %" if timing and before else NOT_IN_MATRIX,
        *map(number, over),
        f"{verification['train_steps']}/{expected}" if expected else NOT_IN_MATRIX,
        f"{row.ending}: {row.ended.reason}" if row.ended.reason else row.ending,
    )


def _losses(steps: Sequence[tuple[int, Row, Record]]) -> list[Section]:
    """The loss of each successive step in eager mode and by each path. Rows of other options or older runs may have been compared with other losses."""
    alike: dict[tuple[float, ...], list[tuple[int, str, Sequence[float | None]]]] = defaultdict(list)  # fmt: skip
    for index, row, record in steps:
        verification = record["verification"]
        if losses := verification.get("losses"):
            golden = tuple(verification.get("golden_losses") or ())
            alike[golden].append((index, wording.path(row.column), losses))

    def text(losses: Sequence[float | None], step: int) -> str:
        if step >= len(losses):
            return NOT_IN_MATRIX
        loss = losses[step]
        return "not finite" if loss is None else f"{loss:#.7g}"

    return [
        Section(
            "Losses of successive steps",
            ("step", "eager", *(path for _, path, _ in rows)),
            [(str(step + 1), text(golden, step), *(text(losses, step) for _, _, losses in rows)) for step in range(len(golden))],
            range(1, 2 + len(rows)),
            places=[[index for index, _, _ in rows]] * len(golden),
            folded=True,
        )
        for golden, rows in alike.items()
    ]  # fmt: skip


def failures(source: Source) -> list[Section]:
    """Return the clusters of all failures: their cells, an example, remedies, and what they block."""
    places = {str(row.cell): index for index, row in enumerate(source.rows)}
    known = clusters(source.records)
    if not known:
        return [Section("", note="No row failed. Rows without a device are not failures; the overview has them.")]  # fmt: skip
    parts: dict[bool, list[Section]] = {False: [], True: []}
    for cluster in known:
        parts[cluster.is_made_good].append(_cluster(source, cluster, places))
    good = "What was asked for failed. Another lowering path, opt level or flags worked."
    return [
        Section("Not compiled or not verified", parts=parts[False]),
        Section("Compiled by a remedy", note=good if parts[True] else "", parts=parts[True]),
    ]


def _cluster(source: Source, cluster: Cluster, places: Mapping[str, int]) -> Section:
    """Return a cluster with its first failure as the example."""
    remedies = [
        (name, remedy.does)
        for name, remedy in compile_tables.remedies().remedies.items()
        if cluster.stage == "compile" and cluster.reason in remedy.reasons
    ]
    failed = [(row, row.failed) for row in cluster.rows if row.failed]
    first, example = failed[0]
    statuses = ", ".join(sorted({ended.status for _, ended in failed}))
    counted = f"{len(failed)} row{'s' * (len(failed) > 1)}"
    by_path = Counter(str(row.cell).partition("/")[2] for row in cluster.rows)
    blocked = [f"{model} on {target}{by and f': compiled by {by}'}" for (model, target), by in cluster.blocks.items()]  # fmt: skip
    alone = f"; {'the only failure of' if cluster.is_made_good else 'alone blocks'} {len(blocked)} model{'s' * (len(blocked) > 1)}" if blocked else ""  # fmt: skip
    ended_as = (
        f"compiled by {row.remedy}" if row.remedy else ended.status + (f"; tried {row.tried}" if row.tried else "")
        for row, ended in failed
    )  # fmt: skip
    return Section(
        f"{counted}: {cluster.stage}: {cluster.reason or statuses}: {cluster.signature}{alone}",
        ("cell", "ended as"),
        [(str(row.cell), how) for (row, _), how in zip(failed, ended_as, strict=True)],
        places=[places[str(row.cell)] for row, _ in failed],
        lines=[", ".join(f"{path} ×{count}" for path, count in by_path.items())],
        parts=[
            Section("Known remedies", rows=remedies, note="" if remedies else "None is known for this reason."),
            Section("Models without another failure" if cluster.is_made_good else "Models that only this blocks", lines=blocked),
            Section(f"Example: {first.cell}", text=example.detail, command=command(cluster.example, example)),
            Section(f"End of {example.log}", text=end_of(source.results, example.log, FAILED_CHARS), folded=True),
        ],
        folded=True,
    )  # fmt: skip


@dataclass(frozen=True)
class StageRun:
    """A stage that ran, which several rows may share. `places`: of these."""

    run: Run
    places: list[int]

    @property
    def path(self) -> str:
        """The lowering path or baseline, for its colour."""
        return self.name.partition(" on ")[0] if "/" in self.run["cell"] else "eager"

    @property
    def name(self) -> str:
        """Its cell without the model."""
        rest = self.run["cell"].partition("/")[2].removesuffix("/eval")
        return rest.replace("/", " on ") or self.run["cell"]


def memory(source: Source) -> list[Section]:
    """Return, for each model, the stages that ran with their seconds, peak and samples over time; and for each compiled
    program the bytes that it needs by purpose."""
    runs: dict[str, dict[tuple[str, str], StageRun]] = defaultdict(dict)
    for index, (row, of_row) in enumerate(zip(source.rows, source.stages, strict=True)):
        for ran in of_row:
            if ran["stage"] in WITH_MEMORY and ran["mb"]:
                key = ran["stage"], ran["cell"]
                runs[row.model].setdefault(key, StageRun(ran, [])).places.append(index)
    models = [
        Section(
            model,
            parts=[
                *(_stage(source, title, [ran for ran in of_model.values() if ran.run["stage"] == stage]) for stage, title in WITH_MEMORY.items()),
                _planned(source, model),
            ],
            folded=place > 0,
        )
        for place, (model, of_model) in enumerate(runs.items())
    ]  # fmt: skip
    return [Section("", note=SAMPLED if models else "No stage of these rows was recorded.", parts=models)]  # fmt: skip


def _stage(source: Source, title: str, runs: Sequence[StageRun]) -> Section:
    most = max((ran.run["mb"] for ran in runs), default=1)
    lines: list[Line] = []
    marks: dict[str, float] = {}
    for ran in runs:
        path = source.root / status_path(STAGES[ran.run["stage"]].folder, ran.run["cell"])
        if series := outcome.read_memory(path):
            # Before its first sample, the stage had no process.
            begin = series.seconds[0]
            points = [(s - begin, float(mb), None, None) for s, mb in zip(series.seconds, series.mb, strict=True)]  # fmt: skip
            lines.append(Line(ran.name, ran.path, points, ran.places))
            for at, words in series.marks:
                marks.setdefault(words, at - begin)
    charts = [Chart("", "MiB", lines, "s since its process started", marks=[(at, words) for words, at in marks.items()])] if lines else []  # fmt: skip
    rows = [
        (ran.name, ran.run["status"], seconds(ran.run["seconds"]), Styled(mebibytes(ran.run["mb"]), share=ran.run["mb"] / most))
        for ran in runs
    ]  # fmt: skip
    head = ("", "status", "time", "peak memory")
    return Section(title, head, rows, (2, 3), charts=charts, places=[ran.places for ran in runs])


def _planned(source: Source, model: str) -> Section:
    """The bytes of the parameters, constants, intermediate results and packed weights of each program, where they are known."""
    known = [
        (index, row, [lookup(record, path) for path in PLANNED.values()])
        for index, (row, record) in enumerate(zip(source.rows, source.records, strict=True))
        if row.model == model and lookup(record, PLANNED["intermediate results, packed weights"]) is not None
    ]  # fmt: skip
    most = max((count or 0 for _, _, counts in known for count in counts), default=0) or 1
    return Section(
        "What the programs need memory for, as planned by the compiler",
        ("", *PLANNED),
        [(wording.path(row.column), *(Styled(size(count), share=(count or 0) / most) for count in counts)) for _, row, counts in known],
        range(1, 4),
        places=[index for index, _, _ in known],
    )  # fmt: skip
