"""How often intervals of speed-ups are wrong: cells compared with themselves and with slower ones.

    .venvs/iree/bin/python -m benchmarks.agreement measure --minutes 70 --out agreement.json
    python -m benchmarks.agreement analyse agreement.json

`measure` compiles small programs and measures each as the workflow measures a cell: two rounds, in
turns with all others, by scripts.lib.iree.measure. Half of the batches run beside a busy loop that
comes and goes on one core. A slower program holds more of the same operators. `analyse` compares the
rows as the aggregate does (`fit` estimates what the comparison takes for granted, as constants for
scripts/lib/report/ratio.py; it reads results.jsonl of runs too). docs/timing.md has the figures.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

OPERATORS = 100
SLOWER = {"A": 0, "B3": 3, "B5": 5, "B10": 10}
"""Programs, and how many operators each has more."""
CELLS = {"A": 20, "B3": 4, "B5": 4, "B10": 4}
"""Cells of each program in a batch. Each of the slower ones is compared with an A of its own."""
WIDTH = 128
SEED = 12
CONDITIONS = ("quiet", "load")
RULE = {"repeat": 10, "repetition_s": 0.05, "warmup_s": 0.05, "budget_s": 5, "rounds": 2}

BUSY = """
import random, time
moments = random.Random({seed})
while True:
    end = time.monotonic() + moments.expovariate(1 / 3)
    while time.monotonic() < end:
        pass
    time.sleep(moments.expovariate(1 / 3))
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.agreement", description=__doc__.splitlines()[0]
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("measure", help="with the Python of the environment iree")
    one.add_argument("--minutes", required=True, type=float)
    one.add_argument("--out", required=True, type=Path, help="JSON file with all that was measured")
    one.set_defaults(run=lambda args: take(args.minutes, args.out))
    two = commands.add_parser("analyse", help="how often intervals are wrong, and what they find")
    two.add_argument("files", nargs="+", type=Path)
    two.set_defaults(run=lambda args: analyse(args.files))
    three = commands.add_parser("fit", help="the noise that the intervals take for granted")
    three.add_argument("files", nargs="+", type=Path, help="of `measure`, or results.jsonl")
    three.set_defaults(run=lambda args: fit(args.files))
    args = parser.parse_args()
    args.run(args)


# --- measuring, in the environment iree -------------------------------------------------------


@dataclass(frozen=True)
class Taken:
    """One round of one cell: what the interval needs of its measurement."""

    condition: str
    batch: int
    cell: str
    round: int
    started: float
    values_ms: list[float]
    compute_s: list[float]
    memory_s: list[float]
    foreign: float


def take(minutes: float, out: Path) -> None:
    """Batches of both conditions by turns, until the time is over; the file is whole after each.

    What the tools print goes to a log beside it.
    """
    end = time.monotonic() + minutes * 60
    console = os.fdopen(os.dup(2), "w")
    log = os.open(out.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    taken: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        programs = {name: compiled(Path(folder), name) for name in SLOWER}
        batch, longest = 0, 0.0
        while time.monotonic() + longest < end:
            began = time.monotonic()
            for condition in CONDITIONS:
                with busy(batch) if condition == "load" else nothing():
                    taken += map(asdict, batch_of(programs, condition, batch))
            batch += 1
            longest = max(longest, time.monotonic() - began)
            out.write_text(json.dumps({"rule": RULE, "slower": SLOWER, "taken": taken}) + "\n")
            print(f"{batch} batches of each condition", file=console, flush=True)


def batch_of(programs: dict[str, Any], condition: str, batch: int) -> Iterator[Taken]:
    """Both rounds of a batch's cells, each in an order of its own."""
    order = random.Random(f"{SEED} {batch} {condition}")
    cells = [f"{name}.{number}" for name, count in CELLS.items() for number in range(count)]
    for round_ in (1, 2):
        order.shuffle(cells)
        for cell in cells:
            found = programs[cell.partition(".")[0]](cell, round_)
            calibration = found["calibration"]
            yield Taken(
                condition,
                batch,
                cell,
                round_,
                found["started"],
                found["latency"]["values_ms"],
                calibration["compute_s"],
                calibration["memory_s"],
                found["host"]["foreign"],
            )


def compiled(folder: Path, name: str) -> Any:
    """A function that measures the program for a cell and round, as the workflow does."""
    import numpy as np

    from scripts.lib.artifacts import archive, tensors
    from scripts.lib.core import atomic
    from scripts.lib.core.machine import physical_cores
    from scripts.lib.iree.backends import compile_flags
    from scripts.lib.iree.measure import Files, measure
    from scripts.lib.iree.session import Module, device_name
    from scripts.lib.iree.tools import tool
    from scripts.lib.timing.arguments import Timing
    from scripts.lib.timing.rounds import FirstRound
    from scripts.lib.timing.stopping import StoppingRule
    from scripts.lib.verification.arguments import Check

    folder = folder / name
    folder.mkdir()
    operators = OPERATORS + SLOWER[name]
    random_numbers = np.random.default_rng(SEED)
    x = random_numbers.standard_normal((WIDTH, WIDTH))
    w = np.linalg.qr(random_numbers.standard_normal((WIDTH, WIDTH)))[0].astype(np.float32)
    golden = x.astype(np.float32)
    exact = golden.astype(np.float64)
    for _ in range(operators):
        golden, exact = golden @ w, exact @ w.astype(np.float64)
    archive.write(folder / "weights.irpa", [("w", w.reshape(-1).view(np.uint8))])
    tensors.save_npz(folder / "inputs.npz", {"0": x.astype(np.float32)})
    tensors.save_npz(folder / "golden.npz", {"golden.0": golden, "fp64.0": exact})
    kind = tensors.TensorType("x", (WIDTH, WIDTH), "float32")
    error = float(np.sqrt(np.mean((golden - exact) ** 2)))
    tensors.Signature(
        name, "f32", 1, (kind,), (kind,), (kind,), {}, {}, "", True, error, True
    ).write(folder / "signature.json")
    (folder / "program.mlir").write_text(program(operators))
    flags = compile_flags("llvm-cpu", "host", "O3", ())
    command = [tool("iree-compile"), *flags, folder / "program.mlir", "-o", folder / "m.vmfb"]
    subprocess.run(list(map(str, command)), check=True)
    module = Module(folder / "m.vmfb", folder / "weights.irpa", "local-task")
    timing = Timing(StoppingRule(**RULE), physical_cores())
    check = Check(folder / "golden.npz", folder / "signature.json", {})
    cpu = device_name("local-task")

    def run(cell: str, round_: int) -> dict[str, Any]:
        files = [folder / f"{cell}.{number}.json" for number in (1, 2)]
        places = Files(folder / "inputs.npz", folder / "raw", files[round_ - 1])
        first = FirstRound.read(files[0]) if round_ == 2 else None
        measure(module, cpu, places, check, timing, first)
        return atomic.read_json(files[round_ - 1])

    return run


def program(operators: int) -> str:
    """MLIR of a chain of products with one matrix."""
    kind = f"tensor<{WIDTH}x{WIDTH}xf32>"
    lines = [
        f'util.global private @w = #flow.parameter.named<"model"::"w"> : {kind}',
        f"util.func public @main(%x0: {kind}) -> {kind} {{",
        f"  %w = util.global.load @w : {kind}",
        "  %zero = arith.constant 0.0 : f32",
        f"  %empty = tensor.empty() : {kind}",
        f"  %none = linalg.fill ins(%zero : f32) outs(%empty : {kind}) -> {kind}",
    ]
    lines += [
        f"  %x{number + 1} = linalg.matmul ins(%x{number}, %w : {kind}, {kind})"
        f" outs(%none : {kind}) -> {kind}"
        for number in range(operators)
    ]
    return "\n".join([*lines, f"  util.return %x{operators} : {kind}", "}", ""])


@contextmanager
def busy(seed: int) -> Iterator[None]:
    """A busy loop beside, which comes and goes on one core."""
    cores = sorted(os.sched_getaffinity(0))
    core = cores[seed % len(cores)]
    loop = subprocess.Popen(
        [sys.executable, "-c", BUSY.format(seed=seed)],
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    try:
        yield
    finally:
        loop.send_signal(signal.SIGKILL)
        loop.wait()


@contextmanager
def nothing() -> Iterator[None]:
    """No load of ours."""
    yield


# --- analysing, in the driver's environment ---------------------------------------------------


def rows_of(path: Path) -> dict[tuple[str, int, str], list[Any]]:
    """The rows of a file of `measure`, by condition, batch and cell."""
    from scripts.lib.report import ratio

    found: dict[tuple[str, int, str], list[ratio.Round]] = {}
    for one in json.loads(path.read_text())["taken"]:
        calibrated = zip(one["compute_s"], one["memory_s"], strict=True)
        found.setdefault((one["condition"], one["batch"], one["cell"]), []).append(
            ratio.Round(one["values_ms"], one["foreign"], [(a * b) ** 0.5 for a, b in calibrated])
        )
    return found


def pairs(condition: str, batch: int, program: str) -> Iterator[tuple[tuple, tuple]]:
    """The cells to compare in a batch: each one is in one pair of a program at most."""
    count = CELLS[program]
    if program == "A":
        couples = [(f"A.{number}", f"A.{number + 1}") for number in range(0, count, 2)]
    else:
        before = sum(CELLS[other] for other in list(SLOWER)[1 : list(SLOWER).index(program)])
        couples = [(f"A.{before + number}", f"{program}.{number}") for number in range(count)]
    for first, second in couples:
        yield (condition, batch, first), (condition, batch, second)


def analyse(files: Sequence[Path]) -> None:
    """Print, by condition, how often intervals exclude 1 for equals and for slower programs."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="intervals of 95 %")
    for column in ("condition", "program", "true size", "compared", "excludes 1", "share", "limit", "width"):  # fmt: skip
        table.add_column(column, justify="left" if column in ("condition", "program") else "right")
    for condition in CONDITIONS:
        for program_ in SLOWER:
            table.add_row(condition, program_, *compared(files, condition, program_))
    console = Console(width=110)
    console.print(table)
    console.print(
        "share of intervals that exclude 1 on the right side; limit: for A, the share's upper 95 % "
        "confidence limit, else the lower one (Clopper and Pearson); width: median half-width; "
        "true size: mean over batches of the difference of means, with a 95 % interval over batches"
    )


def compared(files: Sequence[Path], condition: str, name: str) -> list[str]:
    """The cells of the table's line of a program."""
    from scipy.special import betaincinv

    from scripts.lib.report import ratio

    found, widths, count = 0, [], 0
    sizes: list[float] = []
    for rows in map(rows_of, files):
        for batch in sorted({b for c, b, _ in rows if c == condition}):
            for one, other in pairs(condition, batch, name):
                between = ratio.ratio(*map(ratio.log_latency, (rows[other], rows[one])))
                above, below = between.low > 1, between.high < 1
                found += above if name != "A" else above or below
                widths.append(math.log(between.high / between.low) / 2)
                count += 1
            sizes.append(size(rows, condition, batch, name))
    # One-sided 95 % limits: upper for what is wrong, lower for what is found.
    if name == "A":
        limit = float(betaincinv(found + 1, count - found, 0.95)) if found < count else 1.0
    else:
        limit = float(betaincinv(found, count - found + 1, 0.05)) if found else 0.0
    return [
        "–" if name == "A" else true_size(sizes),
        str(count),
        str(found),
        f"{found / count:.1%}",
        f"{limit:.1%}",
        f"{statistics.median(widths):.1%}",
    ]


def size(rows: Mapping[tuple, list[Any]], condition: str, batch: int, name: str) -> float:
    """How much slower a program is than A in a batch: all of its cells and rounds against all of A's,
    which were taken in turns."""
    means = []
    for program_ in (name, "A"):
        cells = [rows[condition, batch, f"{program_}.{n}"] for n in range(CELLS[program_])]
        means.append(
            statistics.fmean(math.log(v) for cell in cells for r in cell for v in r.values_ms)
        )
    return means[0] - means[1]


def true_size(sizes: Sequence[float]) -> str:
    """The mean over batches, and its 95 % interval by their own spread."""
    from scipy.special import stdtrit

    mean, count = statistics.fmean(sizes), len(sizes)
    if count < 2:
        return f"{math.expm1(mean):+.1%}"
    half = float(stdtrit(count - 1, 0.975)) * statistics.stdev(sizes) / math.sqrt(count)
    low, high = (math.expm1(mean + off) for off in (-half, half))
    return f"{math.expm1(mean):+.1%} ({low:+.1%} to {high:+.1%})"


def fit(files: Sequence[Path]) -> None:
    """Print the prior that the differences between the rounds of rows have most likely come of."""
    import numpy as np
    from scipy import optimize, stats

    from scripts.lib.report import ratio

    couples = [couple for path in files for couple in _alike(path)]
    differences = np.array([one[0].centre - other[1].centre for one, other in couples])
    seen = np.array(
        [
            np.add((1.0, *ratio.was_seen(one)), (1.0, *ratio.was_seen(other)))
            for one, other in couples
        ]
    )

    def surprise(logarithms: np.ndarray) -> float:
        *factors, df = np.exp(logarithms)
        scale = np.sqrt(seen @ factors)
        return -stats.t.logpdf(differences, df, scale=scale).sum()

    best = optimize.minimize(
        surprise,
        np.log([1e-4, 1.0, 0.1, 0.1, 4.0]),
        method="Nelder-Mead",
        bounds=np.log([(1e-6, 1.0)] + 3 * [(1e-3, 100.0)] + [(3.5, 30.0)]),
        options={"maxiter": 10_000, "maxfev": 10_000},
    )
    floor, within, contention, drift, df = np.exp(best.x)
    print(f"{len(couples)} differences between two rounds")
    print(
        f"NOISE = Noise(floor={math.sqrt(floor):.4f}**2, within={within:.2f}, "
        f"contention={contention:.3f}, drift={drift:.3f}, df={df:.1f})"
    )


def _alike(path: Path) -> Iterator[tuple[list[Any], list[Any]]]:
    """Rows of the same program, of which the first round of the one and the second of the other are
    compared: both cells of a pair of A, either way; a row of a results.jsonl and itself.

    Load that lasts through both rounds of a row shows between cells alone.
    """
    from scripts.lib.report import ratio

    text = path.read_text(encoding="utf-8")
    if text.startswith('{"rule"'):
        rows = rows_of(path)
        for condition, batch in dict.fromkeys((c, b) for c, b, _ in rows):
            for one, other in pairs(condition, batch, "A"):
                yield rows[one], rows[other]
                yield rows[other], rows[one]
        return
    for latency in (json.loads(line)["latency"] for line in text.splitlines()):
        if latency and not latency["no_interval"]:
            row = ratio.of_latency(latency["values_ms"], latency["rounds"])
            yield row, row


if __name__ == "__main__":
    main()
