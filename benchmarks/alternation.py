"""Measure how far ratios of latencies that are timed in turns can be trusted. docs/timing_errors.md has the figures.

    python -m benchmarks.alternation errors --minutes 60 --record errors.jsonl
    python -m benchmarks.alternation tool --record tool.jsonl
    python -m benchmarks.alternation cells conv/torchmlir-torch/llvm-cpu conv-onnx/onnx-torch/llvm-cpu
    python -m benchmarks.alternation builds --record builds.jsonl
    python -m benchmarks.alternation show errors.jsonl tool.jsonl builds.jsonl
    python -m benchmarks.alternation run

`errors` times groups of equal and of slower programs as the workflow times a group, and counts wrong and missing
verdicts. `tool` compares scripts.stages.time_module with iree-benchmark-module; `cells` compares cells of any models. `builds` compares processes of a
baseline that build their model anew in each generation with those that are forked from one build. They use the files of a finished
run, whose figures `run` prints. What is measured is appended to `--record`, a JSON object per line, and `show` prints the tables of
such files.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import default_run
from scripts.config import cell
from scripts.core import atomic, exits, requests
from scripts.core import commands as core_commands
from scripts.core.machine import physical_cores
from scripts.iree import session
from scripts.iree.backends import allocator_flags, compile_flags
from scripts.iree.session import runtime_flags
from scripts.measure.timing import ratios
from scripts.measure.timing.group_timing import latencies
from scripts.measure.timing.ratios import Difference, Interval, decide
from scripts.measure.timing.turns import Group, Rule, Timed
from scripts.supervise import outcome
from scripts.supervise.members import (
    BASELINE,
    LOAD_S,
    TWIN,
    VERIFICATION,
    Member,
    Process,
    time_in_turns,
    unfit_control,
)
from scripts.tools.compare.comparing import MATTERS, Settings
from scripts.tools.compare.pairs import ANCHOR, TURNS

IREE = Path(".venvs/iree/bin")
OPERATORS = 100
"""The products of an equal program. Slower ones have more, by a number of percent."""
SEED = 12
CONDITIONS = {"1": (1, False), "1+load": (1, True), "all": (None, False), "all+load": (None, True)}
"""Threads (None: one per physical core), and whether a busy loop comes and goes on one core."""
DIFFERS = 0.02
"""The difference between the worker and the tool that is named."""
EVERY, BASE = "all pairs", "with the base"
BUSY = """
import random, time
moments = random.Random({seed})
while True:
    end = time.monotonic() + moments.expovariate(1 / 3)
    while time.monotonic() < end:
        pass
    time.sleep(moments.expovariate(1 / 3))
"""

Line = dict[str, Any]
"""What was measured of a group or an entry, as it is in a record."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.alternation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, dest="command")

    def command(name: str, what: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=what, formatter_class=argparse.ArgumentDefaultsHelpFormatter)  # fmt: skip

    one = command("errors", "wrong verdicts on equal programs, and what is found of slower ones")
    one.add_argument("--minutes", required=True, type=float, help="no group begins after these")
    one.add_argument(
        "--conditions", nargs="+", choices=CONDITIONS, default=list(CONDITIONS), help="threads, and with or without load; in turns"
    )  # fmt: skip
    one.add_argument("--equal", type=int, default=7, help="equal programs in a group")
    one.add_argument("--slower", nargs="*", type=int, default=[3, 5, 10], help="percent")
    one.add_argument("--width", type=int, default=256, help="size of the matrices")
    one.add_argument("--budget", type=float, default=Rule.budget_s, help="seconds of a group")
    one = command("tool", "the worker and iree-benchmark-module, in turns")
    core_commands.add_cell_option(one)
    one = command("builds", "processes of a baseline that are built anew, and forks of one build")
    one.add_argument("--cells", nargs="+", default=["conv/eager/eval", "conv/inductor/eval", "gcn/eager/eval", "gcn/inductor/eval"], help="baselines of a finished run")  # fmt: skip
    one.add_argument("--threads", type=int, help="of a baseline; else all physical cores")
    for name, generations in (("tool", 8), ("builds", 20)):
        one = commands.choices[name]
        one.add_argument("--generations", type=int, default=generations, help="starts of all")
        one.add_argument("--seconds", type=float, default=1.0, help="of calls of a process in each")
    one = command(
        "cells", "cells of any models, in turns until their ratios to the first are decided"
    )
    one.add_argument("cells", nargs="+", help="cells of a finished run")
    for name in ("errors", "tool", "cells", "builds"):
        commands.choices[name].add_argument("--record", type=Path, help="file to append to")
    one = command("run", "the figures of a finished run")
    one.add_argument("--results", type=Path, default=Path("results/results.jsonl"), help="of it")
    one.add_argument("--target", default="llvm-cpu", help="whose rows")
    command("show", "the tables of records").add_argument("records", nargs="+", type=Path)
    args = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 150)
    if args.command == "run":
        console.print(*default_run.figures(args.results, args.target))
        return
    if args.command == "show":
        lines = [json.loads(line) for path in args.records for line in path.open(encoding="utf-8")]
    else:
        measure = {
            "errors": errors,
            "tool": tool,
            "cells": time_cells,
            "builds": time_builds,
        }
        lines = list(_recorded(measure[args.command](args), args.record))
    tables = {
        "errors": errors_table,
        "tool": tool_table,
        "cells": cells_table,
        "builds": builds_table,
    }
    for kind, table_of in tables.items():
        if of_kind := [one for one in lines if one["kind"] == kind]:
            console.print(table_of(of_kind))
            if kind == "errors":
                console.print(comparisons_table(of_kind))


def _recorded(lines: Iterator[Line], path: Path | None) -> Iterator[Line]:
    """Append each line to the record as soon as it is there."""
    for line in lines:
        if path:
            with path.open("a", encoding="utf-8") as record:
                record.write(json.dumps(line) + "\n")
        yield line


def _started(member: Member, folder: Path) -> Process:
    return Process(member, os.getpid(), folder / "fork-server.txt", LOAD_S, lambda: None)


def _generation(workers: Mapping[str, Any], seconds: float) -> dict[str, list[float]]:
    """Seconds of each call of every process in one generation. `workers`: functions that start them. Exits if one ends."""
    timing = Group(list(workers), lambda name: workers[name](), Rule(), lambda _: False)
    timing.generation(seconds)
    for name, one in timing.timed.items():
        if one.ended:
            exits.fail(f"{name}: {one.ended}")
    return {name: one.generations[0].each_s for name, one in timing.timed.items()}


# errors: false alarms and power


def errors(args: argparse.Namespace) -> Iterator[Line]:
    """Time groups until the minutes are over, the conditions in turns. The first equal program is the base."""
    end = time.monotonic() + args.minutes * 60
    # Generations as long as those of the workflow, as many as the budget holds.
    generations = max(1, round(args.budget * Rule.generations / Rule.budget_s))
    rule = Rule(args.budget, generations=generations)
    percents = {f"A{n + 1}": 0 for n in range(args.equal)} | {f"B{p}": p for p in args.slower}
    number = 0
    with tempfile.TemporaryDirectory(prefix="vmfbench-errors-") as name:
        folder = Path(name)
        worker = (str(IREE / "python"), "-m", "scripts.stages.time_module")
        modules = {p: compiled(folder, args.width, p) for p in sorted(set(percents.values()))}
        while time.monotonic() < end:
            for condition in args.conditions:
                threads, is_loaded = CONDITIONS[condition]
                flags = runtime_flags("local-task", threads or physical_cores())
                commands = {of: (*worker, *modules[p], *flags) for of, p in percents.items()}
                members = [
                    Member(of, command, folder / f"{of}.txt") for of, command in commands.items()
                ]
                with busy(number) if is_loaded else nullcontext():
                    found = _group(members, rule, folder)
                label = f"{condition}, {args.width} wide, {args.budget:g} s"
                yield {"kind": "errors", "condition": label, "percents": percents, **found}
            number += 1


def _group(members: Sequence[Member], rule: Rule, folder: Path) -> Line:
    """Time a group with the rule by which the workflow ends one. The first member is its base."""
    of, began = {one.name: one for one in members}, time.time()

    def enough(timed: Mapping[str, Timed]) -> bool:
        return ratios.is_decided(latencies(timed), [members[0].name])

    timing = Group(list(of), lambda name: _started(of[name], folder), rule, enough)
    timing.run()
    load = timing.load
    others = load.others()
    return {
        "started": began,
        "seconds": time.time() - began,
        "rule": asdict(rule),
        "values_ms": latencies(timing.timed),
        "ended": {name: str(one.ended) for name, one in timing.timed.items() if one.ended},
        **asdict(others),
    }


def compiled(folder: Path, width: int, percent: int) -> list[str]:
    """Compile a chain of products; the flags of iree-benchmark-module for it."""
    source, module = folder / f"{percent}.mlir", folder / f"{percent}.vmfb"
    source.write_text(program(width, OPERATORS + round(OPERATORS * percent / 100)))
    flags = compile_flags("llvm-cpu", "host", "O3", ())
    subprocess.run([IREE / "iree-compile", *flags, source, "-o", module], check=True)
    x, w = np.random.default_rng(SEED).standard_normal((2, width, width), dtype=np.float32)
    x.tofile(folder / "0.bin")
    np.linalg.qr(w)[0].tofile(folder / "1.bin")  # products with it neither grow nor vanish
    inputs = [f"--input={width}x{width}xf32=@{folder}/{number}.bin" for number in range(2)]
    device = ("--device=local-task", *allocator_flags("local-task"))
    return [f"--module={module}", "--function=main", *device, *inputs]


def program(width: int, operators: int) -> str:
    """Return the MLIR of a chain of products with one matrix."""
    kind = f"tensor<{width}x{width}xf32>"
    products = [
        f"  %x{n + 1} = linalg.matmul ins(%x{n}, %w : {kind}, {kind}) outs(%none : {kind}) -> {kind}"
        for n in range(operators)
    ]
    return "\n".join([
        f"util.func public @main(%x0: {kind}, %w: {kind}) -> {kind} {{",
        "  %zero = arith.constant 0.0 : f32",
        f"  %empty = tensor.empty() : {kind}",
        f"  %none = linalg.fill ins(%zero : f32) outs(%empty : {kind}) -> {kind}",
        *products,
        f"  util.return %x{operators} : {kind}",
        "}\n",
    ])  # fmt: skip


@contextmanager
def busy(seed: int) -> Iterator[None]:
    """Run a busy loop that comes and goes on one core."""
    cores = sorted(os.sched_getaffinity(0))
    loop = subprocess.Popen([sys.executable, "-c", BUSY.format(seed=seed)])
    try:
        os.sched_setaffinity(loop.pid, {cores[seed % len(cores)]})
        yield
    finally:
        loop.kill()
        loop.wait()


def differences(line: Line, percent: int, which: str) -> list[Difference]:
    """The differences of a group between equal programs (`percent` 0) or from equal ones to a slower one: of every pair, or
    only of those with the base. Positive: the slower one, or the second one, takes longer."""
    percents, values = line["percents"], _counted(line["values_ms"])
    equal, other = ([name for name in values if percents[name] == of] for of in (0, percent))
    pairs = list(itertools.product(equal, other) if percent else itertools.combinations(equal, 2))
    found = [
        ratios.paired(values[b], values[a], ratios.noise(values))
        for a, b in pairs
        if which == EVERY or a == next(iter(percents))
    ]
    return [one for one in found if one]


def _counted(values: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """The latencies in the generations that count."""
    kept = ratios.counted(values)
    return {name: [row[at] for at in kept] for name, row in values.items()}


def errors_table(lines: Sequence[Line]) -> Table:
    """Per condition, how often intervals exclude 1 for equal and for slower programs."""
    columns = ("groups", "generations", "compared", "exclude 1", "share", "limit", "half-width", "90 %", "size")  # fmt: skip
    title = f"intervals of {ratios.CONFIDENCE:.0%}"
    table = _table(title, "condition (threads, size, budget)", "programs", *columns)
    for condition in dict.fromkeys(one["condition"] for one in lines):
        own = [one for one in lines if one["condition"] == condition]
        count = statistics.median(len(next(iter(one["values_ms"].values()), ())) for one in own)
        for percent in sorted({p for one in own for p in one["percents"].values()}):
            for which in (EVERY, BASE):
                name = f"{percent} % slower, {which}" if percent else f"equal, {which}"
                cells = _error_cells([differences(one, percent, which) for one in own], percent)
                table.add_row(condition, name, str(len(own)), f"{count:g}", *cells)
    table.caption = (
        "share: of the intervals that exclude 1, on the right side if there is one. limit: its one-sided 95 % limit as if "
        "the pairs were independent (Clopper and Pearson), the upper one for equal programs and else the lower one. "
        "half-width: median and 90th percentile. size: how much longer the slower program takes, the mean over groups "
        "with its 95 % interval over groups"
    )
    return table


def _error_cells(by_group: Sequence[Sequence[Difference]], percent: int) -> list[str]:
    every = [one.interval() for of in by_group for one in of]
    if not every:
        return ["0", *["–"] * 6]
    found = sum(one.low > 1 or (one.high < 1 and not percent) for one in every)
    widths = [one.half_width for one in every]
    of = ratios.of_logs([statistics.fmean(one.value for one in own) for own in by_group if own])
    at = of.interval(0.95) if of and percent else None
    return [
        str(len(every)),
        str(found),
        f"{found / len(every):.1%}",
        f"{_limit(found, len(every), upper=not percent):.1%}",
        *(f"{np.quantile(widths, share):.1%}" for share in (0.5, 0.9)),
        f"{at.ratio - 1:.1%} ({at.low - 1:.1%} to {at.high - 1:.1%})" if at else "–",
    ]


def comparisons(lines: Sequence[Line]) -> dict[str, list[Difference]]:
    """What `vmfbench compare` decides on, of equal programs, by basis: each difference is a comparison of one cell.

    In turns, a group compares its equal programs two by two. By anchor, two groups that follow each other compare each of
    them with itself; the last one is the anchor.
    """
    by_turns, by_anchor = [], []
    groups = [
        (values, [name for name in values if line["percents"][name] == 0])
        for line in lines
        if (values := _counted(line["values_ms"]))
    ]
    for values, equal in groups:
        noise = ratios.noise(values)
        pairs = zip(equal[::2], equal[1::2], strict=False)
        by_turns += [ratios.paired(values[b], values[a], noise) for a, b in pairs]
    for (before, equal), (after, others) in zip(groups[::2], groups[1::2], strict=False):
        *cells, anchor = (name for name in equal if name in others)
        for name in cells:
            was = ratios.paired(before[anchor], before[name], ratios.noise(before))
            now = ratios.paired(after[name], after[anchor], ratios.noise(after))
            by_anchor.append(ratios.combined([(1, was), (1, now)]) if was and now else None)
    return {
        basis: [difference for difference in differences if difference]
        for basis, differences in ((TURNS, by_turns), (ANCHOR, by_anchor))
    }


def comparisons_table(lines: Sequence[Line]) -> Table:
    """Per condition and basis, how many comparisons of equal programs find a change."""
    title = f"comparisons of equal programs (rate {Settings.rate:g}, threshold {MATTERS:g})"
    columns = ("by", "comparisons", "slower or faster", "alarms", "limit", "same")
    table = _table(title, "condition (threads, size, budget)", *columns)
    for condition in dict.fromkeys(line["condition"] for line in lines):
        own = [line for line in lines if line["condition"] == condition]
        for basis, differences in comparisons(own).items():
            cells = [decide([each], Settings.rate, MATTERS)[0] for each in differences]
            count = collections.Counter(each.verdict for each in cells)
            alarms = sum(each.verdict == ratios.SLOWER and each.ratio >= MATTERS for each in cells)
            limit = f"{_limit(alarms, len(cells), upper=True):.1%}" if cells else "–"
            changed = count[ratios.SLOWER] + count[ratios.FASTER]
            figures = (len(cells), changed, alarms, limit, count[ratios.ALIKE])
            table.add_row(condition, basis, *map(str, figures))
    table.caption = (
        "alarms: a cell is called slower, by the threshold at least, so `vmfbench compare` ends with 1. limit: one-sided 95 % "
        "limit of their share (Clopper and Pearson). same: within the threshold on both sides"
    )
    return table


def _limit(found: int, count: int, upper: bool) -> float:
    """The one-sided 95 % limit of a share (Clopper and Pearson 1934)."""
    from scipy.special import betaincinv

    if upper:
        return float(betaincinv(found + 1, count - found, 0.95)) if found < count else 1.0
    return float(betaincinv(found, count - found + 1, 0.05)) if found else 0.0


# tool: the worker and iree-benchmark-module


def tool(args: argparse.Namespace) -> Iterator[Line]:
    """Time each entry by the worker and by iree-benchmark-module, which start in turns."""
    results = Path("results/verify")
    for path in sorted(results.glob(f"*/*/*/{VERIFICATION}")):
        name = str(path.parent.relative_to(results))
        status = outcome.read(path.with_name(outcome.STATUS))
        if status.status == outcome.OK and cell.selects(args.cell or ["*/*/llvm-cpu"], name):
            measured = atomic.read_json(path)
            with tempfile.TemporaryDirectory(prefix="vmfbench-tool-") as folder:
                member = Member.verified(name, path.parent, Path(folder) / "log.txt", True)
                yield _entry(member, shlex.split(measured["command"]), args)


def _entry(member: Member, command: Sequence[str], args: argparse.Namespace) -> Line:
    def by_worker() -> list[float]:
        start = {member.name: lambda: _started(member, member.log.parent)}
        return _generation(start, args.seconds)[member.name]

    call_s = ratios.undisturbed(by_worker())
    calls = max(1, round(Rule.slice_s / 3 / call_s))
    repetitions = max(5, round(args.seconds / calls / call_s))
    values: dict[str, list[float]] = {"tool": [], "worker": [], "row": []}
    for number in range(args.generations):
        each_s = by_worker() if number % 2 else []
        tool_ms = _by_tool(command, calls, repetitions, member.log.with_name("report.json"))
        each_s = each_s or by_worker()
        means = np.reshape(each_s[: len(each_s) // calls * calls], (-1, calls)).mean(axis=1)
        values["tool"].append(ratios.undisturbed(tool_ms))
        values["worker"].append(ratios.undisturbed(means.tolist()) * 1e3)
        values["row"].append(ratios.undisturbed(each_s) * 1e3)
    return {"kind": "tool", "entry": member.name, "calls": calls, "values_ms": values}


def _by_tool(command: Sequence[str], calls: int, repetitions: int, report: Path) -> list[float]:
    """Milliseconds per call of each repetition of `calls` calls."""
    options = {
        "min_warmup_time": 0.2,
        "min_time": f"{calls}x",
        "repetitions": repetitions,
        "out": report,
        "out_format": "json",
    }
    flags = [f"--benchmark_{name}={value}" for name, value in options.items()]
    subprocess.run([*command, *flags], check=True, capture_output=True)
    return session.read_ms(report)


def tool_table(lines: Sequence[Line]) -> Table:
    """The worker by the tool, and the latency of a row by the tool."""
    table = _ratios_table("scripts.stages.time_module and iree-benchmark-module", lines)
    table.caption = (
        "tool, worker: the 5 % quantile of means of successive calls that take 10 ms, or of single longer ones. row: that of single "
        "calls, which is the latency of a row"
    )
    return table


def _ratios_table(title: str, lines: Sequence[Line]) -> Table:
    """The ratios of other latencies to the first, of each entry."""
    table = _table(title, "entry", "latencies", "ms", "ratio", f"{ratios.CONFIDENCE:.0%}", "")
    for one in lines:
        (first, base), *others = _counted(one["values_ms"]).items()
        for name, row in others:
            ratio = math.exp(ratios.log_mean(row) - ratios.log_mean(base))
            of = ratios.paired(row, base)
            said = f"by more than {DIFFERS:.0%}" if abs(ratio - 1) > DIFFERS else ""
            ms = f"{statistics.median(base):.4g}"
            table.add_row(one["entry"], f"{name} / {first}", ms, f"{ratio:.3f}", _span(of.interval() if of else None), said)  # fmt: skip
    return table


# cells: the same program from several files, for example


def time_cells(args: argparse.Namespace) -> Iterator[Line]:
    """Time verified cells in turns, whatever their models are."""
    with tempfile.TemporaryDirectory(prefix="vmfbench-cells-") as folder:
        members = [
            Member.verified(
                name, Path("results/verify", name), Path(folder, f"{number}.txt"), False
            )
            for number, name in enumerate(args.cells)
        ]
        timing = time_in_turns(members, Rule(until_decided=True))
    if why := unfit_control(timing):
        exits.fail(why)
    for name, member in timing.members.items():
        if member.status != outcome.OK:
            exits.fail(f"{name}: {member.status} ({member.reason}): {member.detail}")
    values = {name: member.values_ms for name, member in timing.members.items()}
    yield {"kind": "cells", "entry": args.cells[0], "values_ms": values}


def cells_table(lines: Sequence[Line]) -> Table:
    """A line per cell: the ratio of its latency to that of the first one."""
    return _ratios_table("cells in turns", lines)


# builds: how much a baseline varies from build to build

FORKS, FRESH = "forks", "fresh"


def time_builds(args: argparse.Namespace) -> Iterator[Line]:
    """Time three processes of each baseline in turns: two that are forked from a separate build in all generations, as the
    workflow does it, and one that builds the model anew in each."""
    for name in args.cells:
        with tempfile.TemporaryDirectory(prefix="vmfbench-builds-") as folder:
            verified = Path("results/baseline", name)
            member = Member.verified(name, verified, Path(folder, "log.txt"), True)
            if args.threads:
                request = requests.read(verified).replaced(BASELINE, threads=args.threads)
                request.write(Path(folder))
                member = replace(member, command=tuple(request.command(Path(folder))))
            yield _builds(member, args.generations, args.seconds, args.threads)


def _builds(member: Member, generations: int, seconds: float, threads: int | None) -> Line:
    folder, kept, began = member.log.parent, {}, time.time()
    of = {
        name: replace(member, name=name, log=folder / f"{number}.txt")
        for number, name in enumerate((FORKS, FORKS + TWIN, FRESH))
    }

    def start(name: str) -> Process:
        if name in kept and kept[name].is_resting:
            kept[name].wake()
            return kept[name]
        kept[name] = Process(
            of[name], os.getpid(), folder / "fork-server.txt", LOAD_S, lambda: None, keeps=name != FRESH
        )  # fmt: skip
        return kept[name]

    timing = Group(list(of), start, Rule(), lambda _: False)
    try:
        for _ in range(generations):
            timing.generation(seconds)
    finally:
        for process in kept.values():
            process.close()
    for name, timed in timing.timed.items():
        if timed.ended:
            exits.fail(f"{name}: {timed.ended}")
    return {
        "kind": "builds",
        "entry": f"{member.name}, {threads or physical_cores()} threads",
        "started": began,
        "values_ms": latencies(timing.timed),
        "load": timing.load.average,
        **asdict(timing.load.others()),
    }


def spreads(values_ms: Mapping[str, Sequence[float]]) -> tuple[float, float]:
    """The standard deviations of the logarithm of a latency: of forks of one build, and of builds beside that. The second is
    estimated from the variances of two ratios, and 0 if the estimate is negative."""
    forks, twin, fresh = (values_ms[name] for name in (FORKS, FORKS + TWIN, FRESH))

    def variance(a: Sequence[float], b: Sequence[float]) -> float:
        return statistics.variance(math.log(x / y) for x, y in zip(a, b, strict=True))

    of_fork = variance(forks, twin) / 2
    of_fresh = (variance(fresh, forks) + variance(fresh, twin)) / 2 - of_fork
    return math.sqrt(of_fork), math.sqrt(max(0.0, of_fresh - of_fork))


def builds_table(lines: Sequence[Line]) -> Table:
    """A line per baseline: how much its latency varies between forks of one build and between builds."""
    columns = ("generations", "ms", "load", "forks", "builds", "two builds, forked", f"{ratios.CONFIDENCE:.0%}")  # fmt: skip
    table = _table("builds of a baseline", "entry", *columns)
    for line in lines:
        values = _counted(line["values_ms"])
        of = ratios.paired(values[FORKS], values[FORKS + TWIN])
        table.add_row(
            line["entry"],
            f"{len(values[FORKS])} of {len(line['values_ms'][FORKS])}",
            f"{statistics.median(values[FORKS]):.4g}",
            f"{line['load']:.1f}",
            *(f"{spread:.1%}" for spread in spreads(values)),
            f"{math.exp(of.value):.3f}" if of else "–",
            _span(of.interval() if of else None),
        )
    table.caption = (
        "forks: the standard deviation of a latency over the forks of one build. builds: what builds add to it. two builds, forked: "
        "the ratio of two processes that each fork from a build of their own, with its interval, which does not contain what builds add"
    )
    return table


def _span(at: Interval | None) -> str:
    return f"{at.low:.3f} to {at.high:.3f}" if at else ""


def _table(title: str, first: str, *columns: str) -> Table:
    table = Table(title=title, title_style="bold", caption_justify="left")
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    return table


if __name__ == "__main__":
    main()
