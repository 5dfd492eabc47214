"""Write results/tuned.md: what tuning has found for each model, and every candidate. The same rows give the same page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from scripts.features.variants.search.report import Line, Specs, Timing, TunedOperation
from scripts.features.variants.search.tried import NOT_APPLICABLE, OUT_OF_BUDGET
from scripts.features.variants.tuned_rows import Reports
from scripts.features.variants.tuning import AS_CONFIGURED, TUNED
from scripts.iree.backends import BACKENDS
from scripts.records import markdown, wording
from scripts.records import summary as records_summary
from scripts.records.markdown import text
from scripts.records.results_table import Table
from scripts.run import outputs
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


def page(records: Sequence[Record], reports: Reports) -> str:
    """Return the whole page as Markdown."""
    table = Table.of(records)
    of = table.provenance
    when = f"\nMeasured {of.when}.\n" if of.when else ""
    parts = [f"# Tuned models\n\n{wording.title(table)}.\n{when}", f"{FOUND}\n{_found(records)}"]
    measured = "".join(f"- {text(line)}\n" for line in (*of.where, *of.with_what))
    parts.append(f"## Measured with\n\n{measured}")
    parts.append(f"## Candidates\n\n{CANDIDATES}")
    for (model, target), report in reports.items():
        seconds = report.compile_s + report.measure_s
        head = f"### {text(model)} on {text(target)}\n\n{seconds:.0f} of {report.budget_s:g} s.\n"
        rows = [_candidate(one) for one in report.candidates if one.reason not in NOT_TRIED]
        shown = markdown.table(("candidate", "ms", "gain", "generations", "outcome"), rows)
        parts.append("\n".join(filter(None, (head, shown, "".join(_not_tried(report.candidates))))))
        parts += [_specs(one) for one in report.specs]
    return "\n".join(parts)


HEAD = ("model", "target", "eager", "inductor", "default", "tuned", "gain", "kept", "candidate", "verified")  # fmt: skip


def found_rows(records: Sequence[Record]) -> Iterator[list[str]]:
    """Yield what was found for each model and target, as cells under HEAD."""
    by_name = {
        (one["model"]["name"], one["experiment"]["frontend"] or one["experiment"]["runtime"], one["experiment"]["target"]): one
        for one in records
    }  # fmt: skip
    for (model, frontend, target), one in by_name.items():
        if frontend != TUNED:
            continue
        tuning = one["tuning"]
        same_device = BACKENDS[one["experiment"]["backend"]].torch_device
        baselines = [_baseline(records, model, runtime, same_device) for runtime in ("eager", "inductor")]  # fmt: skip
        yield [
            model,
            target,
            *(_ms(found) for found in (*baselines, by_name[model, AS_CONFIGURED, target], one)),
            _gain(*(tuning[f"speedup_vs_default{end}"] for end in ("", "_low", "_high"))),
            "yes" if tuning["kept"] else f"no: {tuning['why']}",
            tuning["candidate"] or "",
            ""
            if tuning["candidates"] is None
            else f"{tuning['verified']} of {tuning['candidates']}",
        ]


def _found(records: Sequence[Record]) -> str:
    rows = [[text(cell) for cell in row] for row in found_rows(records)]
    return markdown.table(HEAD, rows, right=range(2, 7))


def said(records: Sequence[Record]) -> Iterator[str]:
    """Yield a sentence about each model and target, for the end of a run."""
    for row in found_rows(records):
        of = dict(zip(HEAD, row, strict=True))
        best = f"{of['tuned']} ms ({of['candidate']})" if of["candidate"] else of["tuned"]
        gain = f"; gain {of['gain']}" if of["gain"] else ""
        kept = "kept" if of["kept"] == "yes" else f"not kept: {of['kept'].removeprefix('no: ')}"
        yield f"{of['model']} on {of['target']}: default {of['default']} ms, tuned {best}{gain}, {kept}"


def _baseline(records: Sequence[Record], model: str, runtime: str, device: str) -> Record | None:
    return next(
        (
            one
            for one in records
            if (one["model"]["name"], one["experiment"]["runtime"]) == (model, runtime)
            and one["experiment"]["device"] == device
        ),
        None,
    )


def _ms(record: Record | None) -> str:
    if record is None:
        return wording.NOT_IN_MATRIX
    if record["latency"]:
        return wording.milliseconds(record["latency"]["ms"])
    ended = record["outcome"]
    return "skipped" if ended["status"] == outcome.SKIPPED else ended["reason"]


def _gain(ratio: float | None, low: float | None, high: float | None) -> str:
    if ratio is None:
        return ""
    return f"{ratio:.2f}" + ("" if low is None else f" ({low:.2f} to {high:.2f})")


OPERATIONS = ("dispatches", "share", "configuration of the compiler", "fastest one found", "alone", "tried")  # fmt: skip


def _specs(one: Specs) -> str:
    """The search for a tuning spec for a candidate."""
    head = f"Tuning spec for `{text(one.candidate)}`, {one.seconds:.0f} s"
    if one.status != outcome.OK:
        return f"{head}: {one.status} ({one.reason}): {text(one.detail[:300])}\n"
    rows = [
        [
            ", ".join(f"`{text(name)}`" for name in found.functions),
            _percent(found.share),
            f"`{_sizes(found.default)}`",
            f"`{_sizes(found.found)}`" if found.found else "the same" if found.tried else "",
            f"{found.gain:.2f} ×" if found.found else "",
            _tried(found),
        ]
        for found in one.operations
    ]
    if not rows:
        return f"{head}: no operation that a spec can match takes 3 % of the time.\n"
    rest = (
        f"\n{_percent(one.others)} of the time are in further dispatches that no spec can match.\n"
        if one.others
        else ""
    )
    return f"{head}:\n\n{markdown.table(OPERATIONS, rows)}{rest}"


def _tried(found: TunedOperation) -> str:
    if not found.matched:
        return "none: the compiler takes no other configuration from a spec"
    if not found.tried:
        return "none: the time was over"
    return f"{found.tried}, {found.failed} of them not accepted"


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def _sizes(config: str) -> str:
    """The levels of a lowering configuration, without the attribute around them."""
    return config.partition("<")[2].removesuffix(">")


def _not_tried(lines: Iterable[Line]) -> Iterator[str]:
    """Yield how many candidates were not tried, by reason."""
    found = Counter((one.reason, one.detail) for one in lines if one.reason in NOT_TRIED)
    for (reason, detail), count in found.items():
        yield f"- {count} not tried ({reason}): {text(detail)}\n"


def _candidate(one: Line) -> list[str]:
    ended = "verified" if one.status == outcome.OK else f"{one.status} ({one.reason}): {one.detail}"
    if one.same_as:
        ended += f"; the module of {one.same_as}"
    name = f"{one.name} (configured)" if one.configured else one.name
    return [text(name), *_timing(one.timing), markdown.text(ended[:300])]


def _timing(of: Timing | None) -> tuple[str, str, str]:
    """The latency, the gain and the generations of a candidate."""
    if of is None:
        return "", "", ""
    ms = wording.milliseconds(of.ms)
    if of.low_ms and of.high_ms:
        ms += f" ({wording.milliseconds(of.low_ms)} to {wording.milliseconds(of.high_ms)})"
    return ms, _gain(of.speedup, of.speedup_low, of.speedup_high), str(of.generations)


def summary(since: float) -> Iterator[RenderableType]:
    """Yield the summary of a run that wrote results/tuned.csv after `since`."""
    files = outputs.files_of("tuned")
    if (rows := outputs.written_rows(since, files[0])) is not None:
        lines = said(list(records_summary.records(files[2])))
        yield from records_summary.of_table("\n".join(lines), files, rows)
