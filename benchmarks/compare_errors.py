"""Measure how often the comparison in turns is wrong, and which slow-downs it finds.

    .venvs/iree/bin/python -m benchmarks.compare_errors measure --minutes 60 --out errors.json
    .venvs/iree/bin/python -m benchmarks.compare_errors measure --minutes 60 --out rows.json --rows results/results.jsonl
    python -m benchmarks.compare_errors analyse errors.json rows.json
    python -m benchmarks.compare_errors runs agreement.json
    python -m benchmarks.compare_errors turns results

`measure` times modules in turns, with the code with which toolchains are compared. A batch is a comparison
of many cells: modules with themselves, and programs with the same program that has 3, 5 and 10 % more operators.
The programs are those of benchmarks.agreement, on one thread and on all physical cores. With `--rows`, the modules
are those of a run: every row of IREE on the CPU with itself. `analyse` decides each batch as scripts.compare does, and
prints how often a cell without a change is called slower or faster, how often the slower programs are found, and how
often neither a change nor its absence is shown. `runs` does the same for two runs, of which each row has two rounds:
consecutive batches of a record of benchmarks.agreement. `turns` compares the modules of a run with several toolchains
with themselves, by the blocks that the run has timed. docs/comparison.md has the figures.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from benchmarks import agreement

if TYPE_CHECKING:
    from scripts.lib.iree.turns import Side

CELLS = {"A": 18, "B3": 2, "B5": 2, "B10": 2}
"""Cells of a batch of programs, by the program that is compared with A."""
BEFORE, AFTER = "before", "after"
THREADS = {"1 thread": 1, "all cores": None}


@dataclass(frozen=True)
class Compared:
    """A cell to measure. `kind`: A if nothing differs, else the slower program."""

    name: str
    kind: str
    sides: tuple[Side, Side]
    threads: int


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare_errors", description=__doc__.splitlines()[0]
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("measure", help="run it with the Python of the environment iree")
    one.add_argument("--minutes", required=True, type=float)
    one.add_argument("--out", required=True, type=Path, help="JSON file with all that was measured")
    one.add_argument("--rows", type=Path, help="results.jsonl of a run whose modules are there")
    one.add_argument("--turns", type=int, default=None, help="turns of a cell")
    one.set_defaults(run=lambda args: measure(args.minutes, args.out, args.rows, args.turns))
    other = commands.add_parser("analyse", help="how often the comparison is wrong")
    other.add_argument("files", nargs="+", type=Path, help="of `measure`")
    other.set_defaults(run=lambda args: _analysis().analyse(args.files))
    other = commands.add_parser("runs", help="how often the comparison of two runs is wrong")
    other.add_argument("files", nargs="+", type=Path, help="of benchmarks.agreement")
    other.set_defaults(run=lambda args: _analysis().analyse_runs(args.files))
    other = commands.add_parser("turns", help="the same for the modules of runs with toolchains")
    other.add_argument("folders", nargs="+", type=Path, help="results folders of such runs")
    other.set_defaults(run=lambda args: _analysis().analyse_turns(args.folders))
    args = parser.parse_args()
    args.run(args)


def _analysis() -> ModuleType:
    """The module that analyses, which needs packages that `measure` lacks."""
    return importlib.import_module("benchmarks.compare_errors_analysis")


def measure(minutes: float, out: Path, rows: Path | None, turns: int | None) -> None:
    """Measure cells for `minutes`, in batches; write the file after each cell."""
    from scripts.lib.iree.turns import TurnRule, take

    end = time.monotonic() + minutes * 60
    rule = TurnRule(**({"turns": turns} if turns else {}))
    taken: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        batches = _of_rows(rows) if rows else _of_programs(Path(folder))
        for number, (condition, cells) in enumerate(batches):
            for count, cell in enumerate(cells, start=1):
                if taken and time.monotonic() > end:
                    return
                found = take(cell.sides, rule, cell.threads)
                about = {"condition": condition, "cell": cell.name, "kind": cell.kind}
                taken.append({"batch": number} | about | {"turns": asdict(found)})
                out.write_text(json.dumps({"rule": asdict(rule), "taken": taken}) + "\n")
                said = f"batch {number + 1} ({condition}): {count} of {len(cells)} cells"
                print(said, file=sys.stderr, flush=True)


Batch = tuple[str, list[Compared]]
"""A condition, and the cells of a comparison."""


def _of_programs(folder: Path) -> Iterator[Batch]:
    """Yield batches of small programs without end, one condition at a time."""
    from scripts.lib.core.machine import physical_cores

    order = random.Random(agreement.SEED)
    sides = {
        (name, condition): _side(folder, name, condition, threads or physical_cores())
        for condition, threads in THREADS.items()
        for name in agreement.SLOWER
    }
    while True:
        for condition, threads in THREADS.items():
            cells = [
                Compared(
                    f"{name}.{number}",
                    name,
                    _named(sides["A", condition], sides[name, condition]),
                    threads or physical_cores(),
                )
                for name, count in CELLS.items()
                for number in range(count)
            ]
            order.shuffle(cells)
            yield condition, cells


def _side(folder: Path, name: str, condition: str, threads: int) -> Side:
    """A program ready to be timed: compiled, and called once."""
    import numpy as np

    from scripts.lib.artifacts import tensors
    from scripts.lib.iree import benchmark, turns
    from scripts.lib.timing.arguments import Timing
    from scripts.lib.timing.stopping import Schedule, StoppingRule

    place = folder / condition
    place.mkdir(exist_ok=True)
    module = agreement.made(place, name)
    kind = (tensors.TensorType("x", (agreement.WIDTH, agreement.WIDTH), "float32"),)
    inputs = [np.load(module.vmfb.with_name("inputs.npz"))["0"]]
    flags = benchmark.write_inputs(module.vmfb.with_name("raw"), inputs, kind)
    timing = Timing(StoppingRule(), threads)
    command = shlex.join(benchmark.command_line(module, flags, timing, Schedule(1, 1, 0.0)))
    first = turns.take([turns.Side(name, command, folder, 0.05)], turns.TurnRule(turns=1), threads)
    return turns.Side(name, command, folder, first.blocks[0].values_ms[-1] / 1e3)


def _of_rows(path: Path) -> Iterator[Batch]:
    """Yield batches of all rows of IREE on the CPU of a run, each compared with itself, without end."""
    from scripts.lib.iree.turns import Side

    folder = path.absolute().parent.parent
    cells = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        of = row["experiment"]
        if of["runtime"] != "iree" or of["device"] != "cpu" or not row["latency"]:
            continue
        side = Side("", row["run"]["command"], folder, row["latency"]["median_ms"] / 1e3)
        name = f"{row['model']['name']}/{of['frontend']}/{of['target']}"
        cells.append(Compared(name, "A", _named(side, side), row["run"]["threads"]))
    order = random.Random(agreement.SEED)
    while True:
        order.shuffle(cells)
        yield "rows", list(cells)


def _named(before: Side, after: Side) -> tuple[Side, Side]:
    return replace(before, name=BEFORE), replace(after, name=AFTER)


if __name__ == "__main__":
    main()
