"""The details of a row, when it is opened: how it ended, its latency, what its stages took, its program, its commands, and the end of its log."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.results import page_sections, wording
from scripts.results.columns import options_of
from scripts.results.page_sections import Chart, Line, Section
from scripts.results.row import Row
from scripts.results.wording import mebibytes, number, seconds, size, within
from scripts.supervise import outcome
from scripts.tools.report.web.page_source import FAILED_CHARS, Record, Run, Source, end_of
from scripts.tools.report.web.row_views import command

BLOCK = 200
"""Rows per compressed block of details: the page decompresses one block when a row of it is opened."""
SCALED = "anchor, scaled"
OK_CHARS = 1_500
"""How much of the end of the log of a row without failure is kept, in characters."""


def of_rows(source: Source) -> list[list[list[dict[str, Any]]]]:
    """Return the sections of the details of all rows as JSON, in blocks, in the order of the records."""
    rows = zip(source.records, source.rows, source.stages, strict=True)
    measured = zip(*(values for _, values in source.columns), strict=True)
    blocks = []
    for row in rows:
        where = next(measured, ())
        said = _sections(source.results, *row)
        if where:
            said.insert(0, facts("", zip((field.column for field, _ in source.columns), where, strict=True)))  # fmt: skip
        blocks.append([page_sections.to_json(section) for section in page_sections.shown(said)])
    return [blocks[at : at + BLOCK] for at in range(0, len(blocks), BLOCK)]


def facts(title: str, pairs: Iterable[tuple[str, Any]], charts: Sequence[Chart] = ()) -> Section:
    """Return names with their values, without those that are empty."""
    known = [(name, str(value)) for name, value in pairs if value not in (None, "", False)]
    return Section(title, rows=known, charts=charts)


def _sections(results: Path, record: Record, row: Row, runs: Sequence[Run]) -> list[Section]:
    ended, run, model = record["outcome"], record["run"], record["model"]
    most = OK_CHARS if ended["status"] == outcome.OK else FAILED_CHARS
    reference = record["reference"]
    stages = [
        (stage["stage"], stage["status"], seconds(stage["seconds"]), mebibytes(stage["mb"] or None))
        for stage in runs
        # Without anything to make good, the stage of remedies ran and did nothing.
        if stage["stage"] != "remedy" or record.get("remedy")
    ]
    threads = f"{run['threads']} threads" if run["threads"] else ""
    stale = " (older than the checkout's)" if ended.get("stale") else ""
    log = end_of(results, ended.get("log"), most)
    return [
        *_failure(record),
        _latency(record, row),
        _verification(record["verification"]),
        Section("Stages", ("stage", "status", "time", "peak memory"), stages, (2, 3)),
        _program(record),
        _commands(record, row),
        Section("End of the log", lines=[ended["log"]] if log else [], text=log),
        facts("Model and versions", (
            ("file", model.get("file")),
            ("options", _options(options_of(record))),
            ("inputs from", reference.get("inputs_from")),
            ("device", ", ".join(filter(None, (run["device_name"], threads)))),
            ("versions", _options(record["versions"])),
            ("code", f"{ended.get('fingerprint') or ''}{stale}"),
        )),
    ]  # fmt: skip


def _options(values: Mapping[str, Any]) -> str:
    known = {name: value for name, value in values.items() if value is not None}
    return ", ".join(f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in known.items())  # fmt: skip


def _failure(record: Record) -> list[Section]:
    ended, remedy = record["outcome"], record.get("remedy") or {}
    is_failure = ended["status"] not in (outcome.OK, outcome.UNAVAILABLE)
    parts = []
    if ended["status"] != outcome.OK:
        blocked = [f"Blocked by {ended['blocked_by']}."] if ended.get("blocked_by") else []
        said = f"{ended['status']} at {ended['stage']}: {ended['reason']}"
        parts.append(Section("Failure" if is_failure else "Outcome", lines=[said, *blocked], text=ended["detail"]))  # fmt: skip
    if first := remedy.get("first"):
        name = remedy.get("name")
        tried = [
            f"{each['remedy']} ({'worked' if each['status'] == outcome.OK else each['reason']}, {seconds(each['seconds'])})"
            for each in remedy.get("tried") or ()
        ]
        said = f"What was asked for failed: {first['reason']}"
        title = f"Compiled by the remedy {name}" if name else "No remedy worked"
        parts.append(Section(title, lines=[said, f"tried: {', '.join(tried)}"], text=first["detail"]))  # fmt: skip
    return parts


def _latency(record: Record, row: Row) -> Section:
    latency, run = record["latency"], record["run"]
    if not latency:
        return Section("Latency")
    ends = row.timing.ends_ms if row.timing else None
    shown = wording.UNKNOWN if row.timing and row.timing.is_unknown else number(latency["ms"], "ms")
    shown += f" ({' to '.join(map(wording.milliseconds, ends))})" if ends else " (?)"
    control = [latency.get(f"control_{end}") for end in ("ratio", "low", "high")]
    over = {
        base: within(*(latency[f"speedup_vs_{base}{end}"] for end in ("", "_low", "_high")))
        for base in ("eager", "inductor")
    }
    known = [name for name in ("p50", "p90", "p99") if latency.get(f"{name}_ms") is not None]
    values, anchor = latency["values_ms"], latency["anchor_ms"]
    path = row.column.name
    lines = [Line(path, path, [(n, ms, None, None) for n, ms in enumerate(values)])]
    if anchor:
        # The anchor as a multiple of its own median: what moves both is in no ratio.
        scale = statistics.median(values) / statistics.median(anchor)
        lines.append(Line(SCALED, SCALED, [(n, ms * scale, None, None) for n, ms in enumerate(anchor)]))  # fmt: skip
    chart = Chart("The latency of each process (generation)", "ms", lines, "generation", [str(n + 1) for n in range(len(values))])  # fmt: skip
    return facts("Latency", (
        ("latency, 99 % interval", shown),
        ("doubt", latency["doubt"]),
        *((f"speed-up over {base}", text) for base, text in over.items() if text != wording.NOT_IN_MATRIX),
        ("verdict", latency.get("verdict") and f"{latency['verdict']}, against the faster of both"),
        ("control", control[1] is not None and f"two processes of one program: ratio {control[0]:.3f} ({control[1]:.3f} to {control[2]:.3f})"),
        ("percentiles of all calls", ", ".join(f"{name} {number(latency[f'{name}_ms'], 'ms')}" for name in known)),
        ("timed", f"{latency['calls']:,} calls in {latency.get('turns')} turns of {latency['generations']} generations"),
        ("group", latency["group"]),
        ("anchor", latency["anchor"]),
        ("others", f"other processes used {latency.get('foreign') or 0:.0%} of the cores, other guests {latency.get('steal') or 0:.0%}"),
        ("tokens per s", latency.get("tokens_per_s") and number(latency["tokens_per_s"])),
        ("load", run.get("load_ms") and number(run["load_ms"], "ms")),
        ("first call", run.get("first_call_ms") and number(run["first_call_ms"], "ms")),
    ), [chart])  # fmt: skip


def _verification(known: Mapping[str, Any]) -> Section:
    def digits(name: str) -> str:
        return "" if known.get(name) is None else f"{known[name]:.3g}"

    expected = known.get("greedy_expected")
    return facts("Verification", (
        ("code", known.get("code")),
        ("detail", known.get("detail")),
        ("largest difference", digits("max_abs_error")),
        ("RMSE against float64", digits("rmse_vs_fp64")),
        ("RMSE of eager itself", digits("golden_rmse_vs_fp64")),
        ("tolerance", f"noise {known['noise']}" if known.get("noise") else known.get("tol")),
        ("greedy tokens", expected and f"{known.get('greedy_tokens')} of {expected}"),
    ))  # fmt: skip


def _program(record: Record) -> Section:
    exported, compiled = record.get("export") or {}, record.get("compile") or {}
    run, experiment = record["run"], record["experiment"]
    sizes = {
        "weights": record["reference"].get("weights_bytes"),
        "program": exported.get("program_bytes"),
        "module": compiled.get("vmfb_bytes"),
        "intermediate results, packed weights": compiled.get("transient_bytes"),
        "constants": compiled.get("constant_bytes"),
    }
    parts = (experiment.get(name) for name in ("backend", "arch", "opt_level"))
    compile_s = compiled.get("compile_s")
    return facts("Program", (
        *((name, count and size(count)) for name, count in sizes.items()),
        ("dispatches", compiled.get("dispatch_count")),
        ("export", exported.get("export_s") and seconds(exported["export_s"])),
        ("iree-compile", compile_s and ", ".join([seconds(compile_s), *([mebibytes(compiled["max_rss_mb"])] if compiled.get("max_rss_mb") else [])])),
        ("memory of the timed process", run.get("max_rss_mb") and mebibytes(run["max_rss_mb"])),
        ("device memory", run.get("device_memory_mb") and mebibytes(run["device_memory_mb"])),
        ("rewrites", ", ".join(exported.get("rewrites") or ())),
        ("backend", ", ".join(filter(None, parts)) if experiment.get("backend") else ""),
        ("flags", " ".join(experiment.get("flags") or ())),
    ))  # fmt: skip


def _commands(record: Record, row: Row) -> Section:
    ended = record["outcome"]
    minimal = command(record, row.failed) if row.failed else ""
    commands = {
        "Shortest command that shows the failure": minimal if minimal != ended.get("command") else "",
        f"Stage {ended['stage']}": ended.get("command"),
        "Timing": record["run"].get("command"),
    }  # fmt: skip
    return Section("Commands", parts=[Section(name, command=words) for name, words in commands.items() if words])  # fmt: skip
