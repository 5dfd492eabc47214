"""Write results/tuned.md: what tuning has found for each model, and every candidate. The same rows give the same page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scripts.features.variants.search.report import (
    NOT_APPLICABLE,
    OUT_OF_BUDGET,
    Line,
    Report,
)
from scripts.features.variants.tuned_rows import Reports
from scripts.iree.backends import BACKENDS
from scripts.matrix.entries import AS_CONFIGURED, TUNED
from scripts.records import wording
from scripts.records.page_sections import Section, as_markdown
from scripts.records.results_table import Table
from scripts.supervise import outcome

Record = Mapping[str, Any]

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


def page(records: Sequence[Record], reports: Reports) -> str:
    """Return the whole page as Markdown."""
    table = Table.of_records(records)
    sections = [
        Section("", HEAD, [*found_rows(records)], range(2, 7), FOUND),
        Section("Measured with", lines=table.provenance.measured_with),
        Section("Candidates", note=CANDIDATES, parts=[_candidates(*each) for each in reports.items()]),
    ]  # fmt: skip
    return "\n".join([wording.head("Tuned models", table), as_markdown(sections)])


def found_rows(records: Sequence[Record]) -> Iterator[list[str]]:
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
    for (model, frontend, target), record in rows.items():
        if frontend != TUNED:
            continue
        tuning = record["tuning"]
        device = BACKENDS[record["experiment"]["backend"]].torch_device
        beside = [baselines.get((model, runtime, device)) for runtime in ("eager", "inductor")]
        count = tuning["candidates"]
        yield [
            model,
            target,
            *map(_ms, (*beside, rows[model, AS_CONFIGURED, target], record)),
            _gain(*(tuning[f"speedup_vs_default{end}"] for end in ("", "_low", "_high"))),
            "yes" if tuning["kept"] else f"no: {tuning['why']}",
            tuning["candidate"] or "",
            "" if count is None else f"{tuning['verified']} of {count}",
        ]


def said(records: Sequence[Record]) -> Iterator[str]:
    """Yield a sentence about each model and target, for the end of a run."""
    for row in found_rows(records):
        cells = dict(zip(HEAD, row, strict=True))
        best = (
            f"{cells['tuned']} ms ({cells['candidate']})" if cells["candidate"] else cells["tuned"]
        )
        gain = f"; gain {cells['gain']}" if cells["gain"] else ""
        kept = (
            "kept" if cells["kept"] == "yes" else f"not kept: {cells['kept'].removeprefix('no: ')}"
        )
        yield f"{cells['model']} on {cells['target']}: default {cells['default']} ms, tuned {best}{gain}, {kept}"


def _ms(record: Record | None) -> str:
    if record is None:
        return wording.NOT_IN_MATRIX
    if record["latency"]:
        return wording.milliseconds(record["latency"]["ms"])
    ended = record["outcome"]
    return "skipped" if ended["status"] == outcome.SKIPPED else ended["reason"]


def _gain(ratio: float | None, low: float | None, high: float | None) -> str:
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
        gain = _gain(timing.speedup, timing.speedup_low, timing.speedup_high)
        timed = (ms, gain, str(timing.generations))
    is_ok = line.status == outcome.OK
    ended = "verified" if is_ok else f"{line.status} ({line.reason}): {line.detail}"
    if line.same_as:
        ended += f"; the module of {line.same_as}"
    return [name, *timed, ended[:300]]
