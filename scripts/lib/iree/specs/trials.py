"""Compiles and times a dispatch with other lowering configurations."""

from __future__ import annotations

import math
import shlex
import statistics
import subprocess
import time
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scripts.lib.iree.backends import allocator_flags
from scripts.lib.iree.session import runtime_flags
from scripts.lib.iree.specs import dispatches
from scripts.lib.iree.specs.dispatches import Dispatch
from scripts.lib.iree.specs.lowering_config import LoweringConfig
from scripts.lib.iree.tools import tool
from scripts.lib.iree.turns import Side, TurnError, TurnRule, Turns, take

RUN_S = 20.0
"""Seconds after which a process that times a dispatch is ended: it takes less than one unless the configuration is very slow."""
ONCE = TurnRule(turns=1, repetition_s=0.03, warmup_s=0.01, limit_s=RUN_S)
COMPARED = TurnRule(turns=4, repetition_s=0.03, warmup_s=0.01, limit_s=RUN_S)
COMPILE_S = 20.0
"""Seconds after which the compilation of a single dispatch is given up; most take one."""


class DispatchTrials:
    """The trials of one dispatch (descent.Trials), with their files in `folder`.

    `flags`: of the target. `end`: the time.monotonic() after which nothing new is tried. `device`, `threads`: what
    runs it.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        flags: Sequence[str],
        folder: Path,
        device: str,
        threads: int,
        end: float,
    ) -> None:
        self._text = dispatch.program.read_text(encoding="utf-8")
        self._function = dispatches.benchmarked(self._text)
        self._flags, self._folder = flags, folder
        self._device, self._threads, self._end = device, threads, end
        self._sides: dict[LoweringConfig, Side] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def is_over(self) -> bool:
        return time.monotonic() >= self._end

    def times(self, configs: Sequence[LoweringConfig]) -> dict[LoweringConfig, float | None]:
        """Compile the configurations, as many at a time as there are threads, and time each."""
        found: dict[LoweringConfig, float | None] = {}
        with ThreadPoolExecutor(self._threads) as pool:
            for at in range(0, len(configs), self._threads):
                group = configs[at : at + self._threads]
                if self.is_over():
                    break
                # All of a group are compiled before one is timed: a compilation would disturb the timing.
                made = list(pool.map(self._compile, group))
                for config, side in zip(group, made, strict=True):
                    if side is None:
                        found[config] = None
                    elif not self.is_over():
                        found[config] = self._time(config, side)
        return found

    def _time(self, config: LoweringConfig, side: Side) -> float | None:
        """Time a configuration: one call says how many calls are a repetition."""
        for _ in range(2):
            if (taken := self._take([side], ONCE)) is None:
                return None
            ms = _median(taken, side.name)
            side = Side(side.name, side.command, side.folder, ms / 1e3)
        self._sides[config] = side
        return ms

    def ratio(self, before: LoweringConfig, after: LoweringConfig) -> float:
        """The median over the turns of the ratio of both; 0 if one cannot be run."""
        for one in (before, after):
            if one not in self._sides:
                self.times([one])
        if before not in self._sides or after not in self._sides:
            return 0.0
        sides = [self._sides[before], self._sides[after]]
        taken = self._take(sides, COMPARED)
        if taken is None:
            return 0.0
        first, second = (
            [min(block.values_ms) for block in taken.blocks if block.side == side.name]
            for side in sides
        )
        return statistics.median(a / b for a, b in zip(first, second, strict=True))

    def _take(self, sides: Sequence[Side], rule: TurnRule) -> Turns | None:
        try:
            return take(sides, rule, self._threads)
        except TurnError as error:
            print(f"not run: {error}", flush=True)
            return None

    def _compile(self, config: LoweringConfig) -> Side | None:
        """Compile the dispatch with a configuration; None if the compiler does not accept it."""
        name = f"{zlib.crc32(str(config).encode()):08x}"
        program, module = (self._folder / f"{name}.{end}" for end in ("mlir", "vmfb"))
        program.write_text(dispatches.with_config(self._text, config), encoding="utf-8")
        command = [
            *(tool("iree-compile"), *self._flags, "--compile-from=executable-configurations"),
            *(str(program), "-o", str(module)),
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=COMPILE_S
            )
        except subprocess.TimeoutExpired:
            return None
        if done.returncode:
            return None
        run = [
            *(tool("iree-benchmark-module"), f"--module={module}", f"--function={self._function}"),
            f"--device={self._device}",
            *runtime_flags(self._device, self._threads),
            *allocator_flags(self._device),
        ]
        return Side(name, shlex.join(run), self._folder, math.inf)


def _median(taken: Turns, side: str) -> float:
    return statistics.median(
        value for block in taken.blocks if block.side == side for value in block.values_ms
    )
