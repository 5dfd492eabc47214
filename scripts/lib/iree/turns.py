"""Times modules in turns: a block of calls of each, again and again, so that the speed of the machine is the same for all.

A block is one process of iree-benchmark-module, with the tool and the options with which a row was measured. A
process of its own per block means that what differs between processes (where its memory lies, on which cores its
threads are) varies from block to block and is part of the spread that is seen.
"""

from __future__ import annotations

import math
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.lib.core import atomic, process
from scripts.lib.iree import gbench
from scripts.lib.timing.hostload import HostWatch

_OPTIONS = "--benchmark_"
"""The beginning of the options of a command that a block replaces by its own."""
MIN_TURNS = 6
"""With fewer turns, the spread of their ratios says too little. A mean over cells needs moments of the t distribution
that exist from 5 degrees of freedom on."""


class TurnError(Exception):
    """A module that cannot be timed: the command and what it printed. `side`: its name."""

    def __init__(self, side: str, text: str) -> None:
        super().__init__(f"{side}: {text}")
        self.side = side


@dataclass(frozen=True)
class Side:
    """A module that takes part. `command`: the line with which iree-benchmark-module times it, as
    `run.command` of its row; `folder`: in which the line is run; `call_s`: seconds of a call, about."""

    name: str
    command: str
    folder: Path
    call_s: float


@dataclass(frozen=True)
class TurnRule:
    """`turns` turns with one block of each module; a block has a warm-up of `warmup_s` and three
    repetitions of `repetition_s` seconds (at least one call each). Calls of more than `long_s` seconds are
    timed once per block. No turn is begun after `budget_s` seconds, once MIN_TURNS are complete. A block that takes more
    than `limit_s` seconds is ended, and its command has failed (None: there is no limit).
    """

    turns: int = 16
    repetition_s: float = 0.05
    warmup_s: float = 0.05
    long_s: float = 0.2
    budget_s: float = 60.0
    limit_s: float | None = None


@dataclass(frozen=True)
class Block:
    """One process: milliseconds per call of each repetition. `started`: seconds since the epoch. `others`:
    the share of the cores that other processes and guests used."""

    turn: int
    side: str
    started: float
    values_ms: tuple[float, ...]
    others: float


@dataclass(frozen=True)
class Turns:
    """What was timed: the blocks in order. `sides`: names of the modules."""

    sides: tuple[str, ...]
    blocks: tuple[Block, ...]

    def write(self, path: Path) -> None:
        atomic.write_json(path, asdict(self))

    @classmethod
    def of(cls, values: dict[str, Any]) -> Turns:
        """The turns in the values of a file. Raises LookupError or TypeError if it has another form."""
        blocks = (
            Block(**(one | {"values_ms": tuple(one["values_ms"])})) for one in values["blocks"]
        )
        return cls(tuple(values["sides"]), tuple(blocks))


def order(sides: Sequence[str], turn: int) -> list[str]:
    """The order of a turn. A B, B A, A B, …: each is as often before the other as after it, and blocks of one
    module follow each other across turns. Of several, another one begins every second turn."""
    start = turn // 2 % len(sides)
    rotated = [*sides[start:], *sides[:start]]
    return rotated if turn % 2 == 0 else rotated[::-1]


def why_not(sides: Sequence[Side], rule: TurnRule) -> str:
    """Why modules are not measured in turns: MIN_TURNS would take more than twice the budget; "" if they are.

    A block has a warm-up call and a timed one at least.
    """
    needed_s = MIN_TURNS * 2 * sum(side.call_s for side in sides)
    if needed_s <= 2 * rule.budget_s:
        return ""
    return f"{MIN_TURNS} turns would take {needed_s:.0f} s, and the budget is {rule.budget_s:g} s"


def take(
    sides: Sequence[Side],
    rule: TurnRule,
    threads: int,
    said: Callable[[str], None] = lambda _: None,
) -> Turns:
    """Time modules in turns. Raises TurnError if a command fails.

    `threads`: CPU threads of the modules. `said` is called with a line per turn.
    """
    blocks: list[Block] = []
    by_name = {side.name: side for side in sides}
    end = time.monotonic() + rule.budget_s
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(rule.turns):
            if turn >= MIN_TURNS and time.monotonic() > end:
                break
            for name in order(list(by_name), turn):
                blocks.append(_block(by_name[name], turn, rule, threads, Path(folder)))
            taken = blocks[-len(sides) :]
            shown = ", ".join(f"{one.side} {one.values_ms[0]:.4g} ms" for one in taken)
            said(f"turn {turn + 1}: {shown}")
    return Turns(tuple(by_name), tuple(blocks))


def _block(side: Side, turn: int, rule: TurnRule, threads: int, folder: Path) -> Block:
    report = folder / "block.json"
    command = [*arguments(side, rule), f"--benchmark_out={report}", "--benchmark_out_format=json"]
    report.unlink(missing_ok=True)
    started = time.time()
    try:
        with HostWatch(threads) as watch:
            done = subprocess.run(
                command,
                cwd=side.folder,
                capture_output=True,
                text=True,
                errors="replace",
                preexec_fn=process.child_setup(os.getpid()),
                timeout=rule.limit_s,
            )
    except subprocess.TimeoutExpired as error:
        raise TurnError(
            side.name, f"still running after {rule.limit_s:g} s\n$ {shlex.join(command)}"
        ) from error
    try:
        if done.returncode:
            raise gbench.BenchmarkError(f"exit code {done.returncode}")
        values = gbench.read_latency(report).values_ms
    except (gbench.BenchmarkError, OSError, LookupError, ValueError) as error:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise TurnError(side.name, f"{error}\n$ {shlex.join(command)}\n{last}") from error
    return Block(turn, side.name, started, values, watch.load.foreign + watch.load.steal)


def arguments(side: Side, rule: TurnRule) -> list[str]:
    """The command line of a block, without the options for its report."""
    kept = [one for one in shlex.split(side.command) if not one.startswith(_OPTIONS)]
    calls = max(1, math.ceil(rule.repetition_s / max(side.call_s, 1e-9) - 1e-9))
    repetitions = 1 if side.call_s > rule.long_s else 3
    return [
        *kept,
        f"--benchmark_min_warmup_time={rule.warmup_s:g}",
        f"--benchmark_min_time={calls}x",
        f"--benchmark_repetitions={repetitions}",
        "--benchmark_report_aggregates_only=false",
    ]
