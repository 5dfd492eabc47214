"""Measure how compiling programs together changes their latencies.

Each program is timed in its own module and as a function of a module of many programs, with and
without IREE's memoization of resources, in turns. Each figure is the shortest of many short
repetitions, because other load on the machine affects it little. The input is a folder of programs
(`*.mlir`) from `python -m benchmarks.small_programs`. Run it with the Python of the iree
environment.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import timing
from scripts.core.machine import physical_cores
from scripts.core.tensors import DTYPES, TensorType
from scripts.features.operators.batch.batch_program import Program
from scripts.features.operators.batch.together import Compilation
from scripts.iree import benchmark
from scripts.iree.backends import compile_flags
from scripts.iree.session import Module, Session
from scripts.iree.tools import tool
from scripts.supervise.job import Job

NO_MEMOIZATION = "--iree-hal-memoization=false"
VARIANTS = {
    "alone": (1, ()),
    "together": (32, ()),
    "alone, no memoization": (1, (NO_MEMOIZATION,)),
    "together, no memoization": (32, (NO_MEMOIZATION,)),
}
"""Programs per module, and additional flags."""
REPETITIONS = ("--benchmark_min_warmup_time=0.01", "--benchmark_min_time=0.002s", "--benchmark_repetitions=60")  # fmt: skip
IN_PYTHON = "alone, called from Python"
PACKAGES = ("iree-base-compiler", "iree-base-runtime")
_ARGUMENT = re.compile(r"%arg\d+: tensor<(?P<shape>(?:\d+x)*)(?P<element>\w+)>")
_TORCH = {mlir: name for name, (mlir, _) in reversed(DTYPES.items())}


@dataclass(frozen=True)
class Timed:
    """A program in each of its variants, and the `types` and `arrays` of its arguments."""

    name: str
    modules: dict[str, Module]
    types: list[TensorType]
    arrays: list[np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batch_timing", description=__doc__)
    parser.add_argument("--programs", required=True, type=Path, help="folder of *.mlir")
    parser.add_argument("--timed", type=int, default=6, help="programs that are timed")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vmfbench-batch-") as name:
        folder = Path(name)
        programs = _programs(args.programs, folder, args.seed)
        timed = _compiled(programs, folder)[: args.timed]
        values = _in_turns(timed, folder, args.turns, args.seed)
    result = {"machine": timing.machine(PACKAGES), "programs": _summary(values)}
    result["geometric_mean_of_alone"] = {
        variant: statistics.geometric_mean(
            [row[variant]["of_alone"] for row in result["programs"].values()]
        )
        for variant in (*VARIANTS, IN_PYTHON)
    }
    print(json.dumps(result, indent=2))
    if args.out:
        args.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def _programs(source: Path, folder: Path, seed: int) -> list[Program]:
    paths = sorted(source.glob("*.mlir"))
    random.Random(seed).shuffle(paths)
    return [Program.read(p.stem, p, folder / "logs" / f"{p.stem}.txt") for p in paths[:32]]


def _compiled(programs: Sequence[Program], folder: Path) -> list[Timed]:
    """Return the programs that compile in every variant."""
    modules: dict[str, dict[str, Module]] = {program.name: {} for program in programs}
    for variant, (together, more) in VARIANTS.items():
        command = [tool("iree-compile"), *compile_flags("llvm-cpu", None, "O3", more)]
        where = folder / str(len(command)) / str(together)
        job = Job("compile", "batch", where / "status.json", where / "log.txt", command, 120, 8000)

        def take(one, variant: str = variant) -> None:
            if "module" in one.result:
                module = Path(one.result["module"])
                found = Module(module, None, "local-sync", one.result["function"])
                modules[one.problem][variant] = found

        Compilation(job, "", where / "cache", together=together).run(programs, take)
    timed = []
    for program in programs:
        if len(modules[program.name]) == len(VARIANTS):
            types = _types(program.text)
            arrays = [np.zeros(kind.shape, DTYPES[kind.dtype][1]) for kind in types]
            timed.append(Timed(program.name, modules[program.name], types, arrays))
    return timed


def _types(text: str) -> list[TensorType]:
    """Return the types of the arguments of the entry."""
    head = text.partition("->")[0]
    found = []
    for number, argument in enumerate(_ARGUMENT.finditer(head)):
        shape = tuple(int(n) for n in argument["shape"].split("x") if n)
        found.append(TensorType(f"arg{number}", shape, _TORCH[argument["element"]]))
    return found


def _in_turns(
    timed: Sequence[Timed], folder: Path, turns: int, seed: int
) -> dict[str, dict[str, list[float]]]:
    """Return the milliseconds of the shortest call of each turn, by program and variant.

    Each turn has another order of variants.
    """
    values: dict[str, dict[str, list[float]]] = {}
    draw = random.Random(seed)
    for program in timed:
        inputs = benchmark.write_inputs(folder / "in" / program.name, program.arrays, program.types)
        calls = _ways(program, inputs, folder / "report.json")
        found = values.setdefault(program.name, {way: [] for way in calls})
        for _ in range(turns):
            for way in draw.sample(list(calls), len(calls)):
                found[way].append(calls[way]())
        print(program.name, {way: round(min(v) * 1e3, 2) for way, v in found.items()}, flush=True)
    return values


def _ways(program: Timed, inputs: list[str], report: Path) -> dict[str, Callable[[], float]]:
    threads = physical_cores()

    def by_tool(module: Module) -> float:
        command = benchmark.command_line(module, inputs, threads)
        output = [f"--benchmark_out={report}", "--benchmark_out_format=json"]
        subprocess.run([*command, *REPETITIONS, *output], check=True, capture_output=True)
        return min(benchmark.read_ms(report))

    def in_python() -> float:
        call = Session(program.modules["alone"], threads).uploaded(program.arrays)
        call()
        times = []
        end = time.perf_counter() + 0.2
        while time.perf_counter() < end:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        return min(times) * 1e3

    ways = {name: lambda module=module: by_tool(module) for name, module in program.modules.items()}
    return ways | {IN_PYTHON: in_python}


def _summary(values: dict[str, dict[str, list[float]]]) -> dict:
    """Return the shortest call of each variant, in microseconds and as a multiple of `alone`."""
    summary: dict = {}
    for program, ways in values.items():
        alone = min(ways["alone"])
        summary[program] = {
            way: {"us": round(min(found) * 1e3, 3), "of_alone": round(min(found) / alone, 3)}
            for way, found in ways.items()
        }
    return summary


if __name__ == "__main__":
    main()
