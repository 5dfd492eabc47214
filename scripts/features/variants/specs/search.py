"""Finds faster lowering configurations for the dispatches that take most of a module's time.

Each search goes from the compiler's own configuration to its best neighbour, again and again. A dispatch with another
configuration is compiled and timed on its own.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import time
import zlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from scripts.core import process
from scripts.features.variants.specs import dispatches
from scripts.features.variants.specs.dispatches import Dispatch, LoweringConfig, Operation
from scripts.iree import benchmark
from scripts.iree.session import Module
from scripts.iree.tools import tool

SHARE = 0.03
"""Dispatches below this share of the time are left as they are: no configuration of theirs makes the model faster by
more than that."""
GAIN = 1.03
"""A step is taken to a configuration that is faster by this factor. Smaller differences are within the noise of a few
repetitions, and each step costs the compilations of all neighbours."""
CHALLENGERS = 3
"""How many of the fastest neighbours are measured in turns with the present configuration."""
RUN_S = 20.0
"""Seconds after which a process that times a dispatch is ended: it takes less than one unless the configuration is very slow."""
REPETITION_S = 0.03
"""Seconds of each of the three repetitions of such a process."""
TURNS = 4
"""Processes of each of two configurations that are compared, in alternation."""
COMPILE_S = 20.0
"""Seconds after which the compilation of a single dispatch is given up; most take one."""


class DispatchTrials:
    """The trials of one dispatch, with their files in `folder`.

    `flags`: of the target. `device`, `threads`: what runs it. `end`: the time.monotonic() after which nothing new is tried.
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
        # The module of each configuration that runs, and the calls of a repetition.
        self._timed: dict[LoweringConfig, tuple[Path, int]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def is_over(self) -> bool:
        """Whether the time for the trials is used up."""
        return time.monotonic() >= self._end

    def times(self, configs: Sequence[LoweringConfig]) -> dict[LoweringConfig, float | None]:
        """Milliseconds of each, measured once; None if it cannot be compiled or run. Those that were not tried because
        the time is over are left out. As many are compiled at a time as there are threads."""
        by_config: dict[LoweringConfig, float | None] = {}
        with ThreadPoolExecutor(self._threads) as pool:
            for at in range(0, len(configs), self._threads):
                group = configs[at : at + self._threads]
                if self.is_over():
                    break
                # All of a group are compiled before one is timed: a compilation would disturb the timing.
                modules = list(pool.map(self._compile, group))
                for config, module in zip(group, modules, strict=True):
                    if module is None:
                        by_config[config] = None
                    elif not self.is_over():
                        by_config[config] = self._time(config, module)
        return by_config

    def ratio(self, before: LoweringConfig, after: LoweringConfig) -> float:
        """Time of `before` / time of `after`: the median over turns; 0 if one cannot be run."""
        for config in (before, after):
            if config not in self._timed:
                self.times([config])
        if before not in self._timed or after not in self._timed:
            return 0.0
        ratios = []
        for _ in range(TURNS):
            first, second = (self._run(*self._timed[config]) for config in (before, after))
            if first is None or second is None:
                return 0.0
            ratios.append(first / second)
        return statistics.median(ratios)

    def _time(self, config: LoweringConfig, module: Path) -> float | None:
        """Time a configuration: one call says how many calls are a repetition."""
        calls = 1
        for _ in range(2):
            if (ms := self._run(module, calls)) is None:
                return None
            calls = max(1, math.ceil(REPETITION_S / max(ms / 1e3, 1e-9)))
        self._timed[config] = module, calls
        return ms

    def _run(self, module: Path, calls: int) -> float | None:
        """Milliseconds per call of the fastest repetition of a process; None if it fails."""
        report = self._folder / "run.json"
        report.unlink(missing_ok=True)
        called = Module(module, None, self._device, self._function)
        command = [
            *benchmark.command_line(called, [], self._threads),
            *("--benchmark_min_warmup_time=0.01", f"--benchmark_min_time={calls}x"),
            "--benchmark_repetitions=3",
            *(f"--benchmark_out={report}", "--benchmark_out_format=json"),
        ]
        setup = process.child_setup(os.getpid())
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=RUN_S, preexec_fn=setup)  # fmt: skip
            if done.returncode:
                raise benchmark.BenchmarkError((done.stderr or done.stdout).strip()[-500:])
            return min(benchmark.read_ms(report))
        except (subprocess.TimeoutExpired, benchmark.BenchmarkError, OSError, LookupError, ValueError) as error:  # fmt: skip
            print(f"not run: {error}", flush=True)
            return None

    def _compile(self, config: LoweringConfig) -> Path | None:
        """The module of the dispatch with a configuration; None if the compiler does not accept it."""
        name = f"{zlib.crc32(str(config).encode()):08x}"
        program, module = (self._folder / f"{name}.{end}" for end in ("mlir", "vmfb"))
        program.write_text(dispatches.with_config(self._text, config), encoding="utf-8")
        command = [
            *(tool("iree-compile"), *self._flags, "--compile-from=executable-configurations"),
            *(str(program), "-o", str(module)),
        ]
        try:
            done = process.captured(command, timeout_s=COMPILE_S)
        except subprocess.TimeoutExpired:
            return None
        return module if done.returncode == 0 else None


@dataclass
class Descent:
    """The result of a search. `found`: the fastest configuration; `gain`: the ratio to the start, measured in turns after the
    search (1: no step was taken). `tried`, `failed`: how many configurations were tried and could not be
    compiled or run."""

    found: LoweringConfig
    gain: float = 1.0
    tried: int = 0
    failed: int = 0


def descend(start: LoweringConfig, largest: int, trials: DispatchTrials) -> Descent:
    """Search from `start`. `largest`: see LoweringConfig.neighbours."""
    state, known = Descent(start), {start}
    moved = True
    while moved and not trials.is_over():
        around = [config for config in state.found.neighbours(largest) if config not in known]
        known.update(around)
        tried = trials.times(around)
        times = {config: ms for config, ms in tried.items() if ms is not None}
        state.tried += len(tried)
        state.failed += len(tried) - len(times)
        moved = _step(state, sorted(times, key=times.__getitem__), trials)
    # The ratios of the steps say too much: each is the best of several noisy ones, and for a dispatch of microseconds
    # their product can be anything.
    if state.found != start and (gain := trials.ratio(start, state.found)) >= GAIN:
        state.gain = gain
    else:
        state.found = start
    return state


def _step(state: Descent, fastest: Sequence[LoweringConfig], trials: DispatchTrials) -> bool:
    """Go to the first of the fastest neighbours that is faster in turns. Returns whether there is one, and the time for the
    comparisons."""
    for config in fastest[:CHALLENGERS]:
        if trials.is_over():
            return False
        if trials.ratio(state.found, config) >= GAIN:
            state.found = config
            return True
    return False


def by_operation(
    dispatches: Sequence[Dispatch], shares: Mapping[str, float]
) -> list[tuple[float, list[Dispatch]]]:
    """The dispatches that have the same operation together, with their share of the time, the largest first. Those that
    take less than SHARE are left out. The slowest dispatch of each is its first."""

    def share(dispatch: Dispatch) -> float:
        return sum(shares.get(name, 0.0) for name in dispatch.functions)

    alike: dict[Operation, list[Dispatch]] = defaultdict(list)
    for dispatch in sorted(dispatches, key=share, reverse=True):
        alike[dispatch.operation].append(dispatch)
    weighed = [(sum(map(share, same)), same) for same in alike.values()]
    weighed.sort(key=lambda pair: -pair[0])
    return [(whole, same) for whole, same in weighed if whole >= SHARE]


@dataclass(frozen=True)
class TunedOperation:
    """An operation that takes a share of the time. `functions`: the dispatches that have it; `share`: of the time of a call,
    0 to 1. `matched`: whether the compiler takes a configuration for it from a spec; if not, none is searched for.
    `found`: the fastest configuration (None: the `default` one of the compiler). `gain`: how many times faster the first
    dispatch was on its own (None: nothing was tried). `tried`: configurations; `failed`: those that the compiler did not
    accept, or that did not run."""

    functions: tuple[str, ...]
    share: float
    operation: str
    default: str
    matched: bool
    found: str | None = None
    gain: float | None = None
    tried: int = 0
    failed: int = 0

    def said(self) -> str:
        """A line about it for the log."""
        head = f"{self.functions[0]} ({self.share:.0%}): {self.default}"
        if not self.matched:
            return f"{head}: the compiler takes no other one from a spec"
        if self.gain is None:
            return f"{head}: not tried, the time was over"
        return (
            f"{head} -> {self.found or self.default}, {self.gain:.2f} x alone, {self.tried} tried, "
            f"{self.failed} not accepted"
        )


def search(
    weighed: Sequence[tuple[float, Sequence[Dispatch]]],
    matched: Collection[Operation],
    flags: Sequence[str],
    folder: Path,
    device: str,
    threads: int,
    budget_s: float,
) -> tuple[list[TunedOperation], dict[Operation, LoweringConfig]]:
    """Search for each operation that the compiler matches, in turn. Each may take its share of the seconds that are left.

    `flags`, `device`, `threads`: see DispatchTrials. Returns what was tried, and the configurations that are faster.
    """
    end = time.monotonic() + budget_s
    todo = sum(share for share, same in weighed if same[0].operation in matched)
    operations: list[TunedOperation] = []
    faster: dict[Operation, LoweringConfig] = {}
    for number, (share, same) in enumerate(weighed):
        operation = same[0].operation
        functions = tuple(name for dispatch in same for name in dispatch.functions)
        is_matched, now = operation in matched, time.monotonic()
        tuned = TunedOperation(functions, share, operation.text, str(operation.config), is_matched)
        if is_matched and now < end:
            limit = now + (end - now) * share / todo
            place = folder / str(number)
            trials = DispatchTrials(same[0], flags, place, device, threads, limit)
            result = descend(operation.config, operation.largest, trials)
            if result.found != operation.config:
                faster[operation] = result.found
            faster_config = str(faster[operation]) if operation in faster else None
            tuned = replace(
                tuned,
                found=faster_config,
                gain=result.gain,
                tried=result.tried,
                failed=result.failed,
            )
        if is_matched:
            todo -= share
        operations.append(tuned)
        print(tuned.said(), flush=True)
    return operations, faster
