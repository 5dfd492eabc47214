"""Measure how often intervals of speed-ups are wrong, on equal programs and on slower programs.

    .venvs/iree/bin/python -m benchmarks.agreement measure --minutes 70 --out agreement.json
    python -m benchmarks.agreement analyse agreement.json

`measure` compiles small programs and measures each as the workflow measures a cell: in two rounds,
in turns with all others, by scripts.lib.iree.measure. Batches are measured on one thread and on all
physical cores, both with and without a busy loop that starts and stops on one core. A slower
program has more operators of the same kind. `analyse` compares the rows as the aggregation does.
`fit` estimates the prior of the comparison, as constants for scripts/lib/report/ratio.py (it also
reads results.jsonl of runs). `trust` prints the errors of latencies by their grade. docs/timing.md
has the figures.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scripts.lib.iree.session import Module

OPERATORS = 100
SLOWER = {"A": 0, "B3": 3, "B5": 5, "B10": 10}
"""Programs, and the number of additional operators of each."""
CELLS = {"A": 20, "B3": 4, "B5": 4, "B10": 4}
"""Cells of each program in a batch. Each cell of a slower program is compared with a cell of A."""
WIDTH = 256
"""Size of the matrices. A product takes tenths of a millisecond, as the dispatches of models do."""
SEED = 12
CONDITIONS = {
    "1 thread": (1, False),
    "1 thread, load": (1, True),
    "all cores": (None, False),
    "all cores, load": (None, True),
}
"""Threads to measure on (None: a thread per physical core), and whether the busy loop runs."""
RULE = {"repeat": 10, "repetition_s": 0.05, "warmup_s": 0.05, "budget_s": 5, "rounds": 2}
ANALYSES = {
    "analyse": ("agreement_analysis", "how often intervals are wrong, and what they find"),
    "fit": ("agreement_fit", "the noise that intervals take for granted; reads results.jsonl too"),
    "trust": (
        "agreement_trust",
        "how far latencies are off, by their trust and what it is made of",
    ),
}

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
    one = commands.add_parser(
        "measure", help="measure; run it with the Python of the environment iree"
    )
    one.add_argument("--minutes", required=True, type=float)
    one.add_argument("--out", required=True, type=Path, help="JSON file with all that was measured")
    one.set_defaults(run=lambda args: take(args.minutes, args.out))
    for name, (module, what) in ANALYSES.items():
        other = commands.add_parser(name, help=what)
        other.add_argument("files", nargs="+", type=Path, help="of `measure`")
        other.set_defaults(run=functools.partial(_analyse, module, name))
    args = parser.parse_args()
    args.run(args)


def _analyse(module: str, name: str, args: argparse.Namespace) -> None:
    """Analyse with a module that is imported here, because `measure` lacks its packages."""
    getattr(importlib.import_module(f"benchmarks.{module}"), name)(args.files)


@dataclass(frozen=True)
class Taken:
    """One round of one cell: the part of its measurement that the interval needs."""

    condition: str
    batch: int
    cell: str
    round: int
    started: float
    values_ms: list[float]
    compute_s: list[float]
    memory_s: list[float]
    others: float


def take(minutes: float, out: Path) -> None:
    """Measure batches of all conditions in turns for `minutes`; write the file after each batch.

    The output of the tools goes to a log next to the file.
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
        while not batch or time.monotonic() + longest < end:
            began = time.monotonic()
            for condition, (threads, loaded) in CONDITIONS.items():
                with busy(batch) if loaded else nothing():
                    taken += map(asdict, batch_of(programs, condition, batch, threads))
            batch += 1
            longest = max(longest, time.monotonic() - began)
            out.write_text(json.dumps({"rule": RULE, "slower": SLOWER, "taken": taken}) + "\n")
            print(f"{batch} batches of each condition", file=console, flush=True)


def batch_of(
    programs: dict[str, Any], condition: str, batch: int, threads: int | None
) -> Iterator[Taken]:
    """Yield both rounds of a batch's cells, each in a different order."""
    order = random.Random(f"{SEED} {batch} {condition}")
    cells = [f"{name}.{number}" for name, count in CELLS.items() for number in range(count)]
    for round_ in (1, 2):
        order.shuffle(cells)
        for cell in cells:
            found = programs[cell.partition(".")[0]](cell, round_, threads)
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
                found["host"]["foreign"] + found["host"]["steal"],
            )


def compiled(folder: Path, name: str) -> Any:
    """Return a function that measures the program for a cell and round, as the workflow does."""
    from scripts.lib.core import atomic
    from scripts.lib.core.machine import physical_cores
    from scripts.lib.iree.measure import Files, measure
    from scripts.lib.iree.session import device_info
    from scripts.lib.timing.arguments import Timing
    from scripts.lib.timing.rounds import FirstRound
    from scripts.lib.timing.stopping import StoppingRule
    from scripts.lib.verification.arguments import Check

    module = made(folder, name)
    folder = module.vmfb.parent
    check = Check(folder / "golden.npz", folder / "signature.json", {})
    cpu = device_info("local-task", physical_cores())["name"]

    def run(cell: str, round_: int, threads: int | None) -> dict[str, Any]:
        timing = Timing(StoppingRule(**RULE), threads or physical_cores())
        files = [folder / f"{cell}.{number}.json" for number in (1, 2)]
        places = Files(folder / "inputs.npz", folder / "raw", files[round_ - 1])
        first = FirstRound.read(files[0]) if round_ == 2 else None
        measure(module, cpu, places, check, timing, first)
        return atomic.read_json(files[round_ - 1])

    return run


def made(folder: Path, name: str) -> Module:
    """Write the files of a program, by its name in SLOWER, into a folder of its own, and compile it."""
    from scripts.lib.iree.backends import compile_flags
    from scripts.lib.iree.session import Module
    from scripts.lib.iree.tools import tool

    folder = folder / name
    folder.mkdir()
    operators = OPERATORS + SLOWER[name]
    write_reference(folder, name, operators)
    (folder / "program.mlir").write_text(program(operators))
    flags = compile_flags("llvm-cpu", "host", "O3", ())
    command = [tool("iree-compile"), *flags, folder / "program.mlir", "-o", folder / "m.vmfb"]
    subprocess.run(list(map(str, command)), check=True)
    return Module(folder / "m.vmfb", folder / "weights.irpa", "local-task")


def write_reference(folder: Path, name: str, operators: int) -> None:
    """Write the files of a reference stage: weights, inputs, golden outputs, signature."""
    import numpy as np

    from scripts.lib.artifacts import archive, tensors

    numbers = np.random.default_rng(SEED)
    x = numbers.standard_normal((WIDTH, WIDTH)).astype(np.float32)
    w = np.linalg.qr(numbers.standard_normal((WIDTH, WIDTH)))[0].astype(np.float32)
    golden, exact = x, x.astype(np.float64)
    for _ in range(operators):
        golden, exact = golden @ w, exact @ w.astype(np.float64)
    archive.write(folder / "weights.irpa", [("w", w.reshape(-1).view(np.uint8))])
    tensors.save_npz(folder / "inputs.npz", {"0": x})
    tensors.save_npz(folder / "golden.npz", {"golden.0": golden, "fp64.0": exact})
    kind = (tensors.TensorType("x", (WIDTH, WIDTH), "float32"),)
    error = float(np.sqrt(np.mean((golden - exact) ** 2)))
    tensors.Signature(name, "f32", 1, kind, kind, kind, {}, {}, "", True, error, True).write(
        folder / "signature.json"
    )


def program(operators: int) -> str:
    """Return the MLIR of a chain of products with one matrix."""
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
    """Run a busy loop that starts and stops on one core."""
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
    """Run no additional load."""
    yield


if __name__ == "__main__":
    main()
