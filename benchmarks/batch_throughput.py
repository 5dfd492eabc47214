"""Compare the compile rate of batches with one iree-compile per program, with the same flags.

    python -m benchmarks.operator_programs --dataset problems.parquet --out programs
    python -m benchmarks.batch_throughput --programs programs --out throughput.json

Both sides compile the same programs in turns, including programs that fail, and must agree on each
outcome. CPU seconds are those of the compilers and of this process; they depend little on other
work on the machine. The input is a folder of programs (`*.mlir`), from benchmarks.operator_programs
or benchmarks.small_programs. Run it with the driver's Python. `--out` is written after each turn.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import timing
from scripts.core import atomic
from scripts.iree import tools
from scripts.iree.backends import BACKENDS, OPT_LEVELS, compile_flags
from scripts.iree.compile_cache import CompileCache
from scripts.supervise.diagnose import diagnose
from scripts.supervise.job import Job
from scripts.supervise.outcome import ProblemEnd
from scripts.tools.operators.batch.batch_program import Program
from scripts.tools.operators.batch.together import TOGETHER, Compilation, Tried

Ended = dict[str, tuple[str, str, str]]
"""Status, reason and detail by the name of a program."""
INCLUDED = 15_568
"""Number of problems that BackendBench's dataset includes."""
CORES = 2


@dataclass
class Side:
    """Totals of one way of compiling: wall seconds, CPU seconds and compiler processes. `turns`: CPU
    seconds per program, by turn."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    processes: int = 0
    ended: Ended = field(default_factory=dict)
    turns: list[float] = field(default_factory=list)

    def take(self, work: Callable[[], tuple[Ended, int]]) -> None:
        """Run `work` and add its time, outcomes and processes."""
        start, cpu = time.perf_counter(), _cpu_seconds()
        ended, processes = work()
        self.seconds += time.perf_counter() - start
        spent = _cpu_seconds() - cpu
        self.cpu_s += spent
        self.turns.append(round(spent / len(ended), 4))
        self.ended |= ended
        self.processes += processes

    def summary(self) -> dict:
        count = len(self.ended)
        each = self.cpu_s / count
        return {
            "programs": count,
            "processes": self.processes,
            "seconds": round(self.seconds, 2),
            "cpu_s": round(self.cpu_s, 2),
            "cpu_s_each": round(each, 4),
            "cpu_s_each_by_turn": self.turns,
            "minutes_for_all": round(each * INCLUDED / CORES / 60, 1),
        }


class Counted(Compilation):
    """A compilation that counts its processes."""

    processes = 0

    def compile(self, programs: Sequence[Program]) -> Tried:
        Counted.processes += 1
        return super().compile(programs)


def main() -> None:
    args = _arguments()
    flags = tuple(compile_flags(args.backend, args.arch, args.opt_level, args.flags))
    command = [str(tools.program("iree-compile", args.env)), *flags]
    batch, single = Side(), Side()
    with tempfile.TemporaryDirectory(prefix="vmfbench-batch-") as folder:
        programs = _programs(args.programs, Path(folder), args.count, args.seed)
        for number, at in enumerate(range(0, len(programs), args.turn)):
            group, work = programs[at : at + args.turn], Path(folder, str(at))
            turns = [
                (batch, lambda g=group, w=work: _in_batch(g, command, w, args)),
                (single, lambda g=group, w=work: _one_by_one(g, command, w, args.timeout)),
            ]
            for side, turn in turns if number % 2 else turns[::-1]:
                side.take(turn)
            _print(batch, single)
            if args.out:
                atomic.write_json(args.out, _result(batch, single, flags, args.together))
    result = _result(batch, single, flags, args.together)
    print(json.dumps(result | {"differences": result["differences"][:5]}, indent=2))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.batch_throughput",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--programs", required=True, type=Path, help="folder of *.mlir")
    parser.add_argument("--env", type=Path, default=Path(".venvs/iree"), help="that has IREE")
    parser.add_argument("--backend", default="llvm-cpu", choices=sorted(BACKENDS))
    parser.add_argument("--arch")
    parser.add_argument("--opt-level", choices=OPT_LEVELS)
    parser.add_argument("--flags", default="[]", type=json.loads, help="more flags, a JSON list")
    parser.add_argument("--count", type=int, help="a random sample of so many programs")
    parser.add_argument("--seed", type=int, default=0, help="of the sample and its order")
    parser.add_argument("--turn", type=int, default=250, help="programs per turn")
    parser.add_argument("--together", type=int, default=TOGETHER, help="programs in a module")
    parser.add_argument("--timeout", type=float, default=120, help="seconds of one program")
    parser.add_argument("--memory", type=float, default=8000, help="MiB of the compiler")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    return parser.parse_args()


def _programs(source: Path, folder: Path, count: int | None, seed: int) -> list[Program]:
    """Return a sample of the programs in a folder, in random order."""
    paths = sorted(source.glob("*.mlir"))
    random.Random(seed).shuffle(paths)
    return [Program.read(p.stem, p, folder / "logs" / f"{p.stem}.txt") for p in paths[:count]]


def _in_batch(
    group: Sequence[Program], command: Sequence[str], folder: Path, args: argparse.Namespace
) -> tuple[Ended, int]:
    """Compile a group as a batch, with an empty cache."""
    before = Counted.processes
    status, log = folder / "status.json", folder / "log.txt"
    job = Job("compile", "batch", status, log, command, args.timeout, args.memory)
    found: list[ProblemEnd] = []
    Counted(job, "", CompileCache(folder / "cache", float("inf")), together=args.together).run(
        group, found.append
    )
    ended = {one.problem: one.outcome for one in found}
    outcomes = {name: (o.status, o.reason, o.detail) for name, o in ended.items()}
    return outcomes, Counted.processes - before


def _one_by_one(
    group: Sequence[Program], command: Sequence[str], folder: Path, limit_s: float
) -> tuple[Ended, int]:
    """Compile a group with one process per program, which has only a time limit."""
    folder.mkdir(parents=True, exist_ok=True)
    ended: Ended = {}
    for program in group:
        try:
            done = subprocess.run(
                [*command, str(program.path), "-o", str(folder / "single.vmfb")],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            ended[program.name] = ("timeout", "time-limit", "")
            continue
        if done.returncode:
            found = diagnose(done.returncode, done.stdout)
            ended[program.name] = (found.status, found.reason, found.detail)
        else:
            ended[program.name] = ("ok", "", "")
    return ended, len(group)


def _result(batch: Side, single: Side, flags: Sequence[str], together: int) -> dict:
    differences = [
        {"program": name, "batch": batch.ended[name], "one by one": ended}
        for name, ended in single.ended.items()
        if batch.ended[name] != ended
    ]
    return {
        "machine": timing.machine(()),
        "flags": list(flags),
        "together": together,
        "statuses": dict(Counter(status for status, _, _ in single.ended.values())),
        "reasons": dict(Counter(reason for _, reason, _ in single.ended.values() if reason)),
        "batch": batch.summary(),
        "one_by_one": single.summary(),
        "rate": round(single.seconds / batch.seconds, 3),
        "rate_cpu": round(single.cpu_s / batch.cpu_s, 3),
        "differences": differences,
    }


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and of the processes that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _print(batch: Side, single: Side) -> None:
    print(
        f"{len(batch.ended)} programs: batch {batch.cpu_s:.1f} CPU s in {batch.processes} "
        f"processes, one by one {single.cpu_s:.1f} CPU s: {single.cpu_s / batch.cpu_s:.2f} x",
        flush=True,
    )


if __name__ == "__main__":
    main()
