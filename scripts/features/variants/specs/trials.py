"""Compiles and times a dispatch with other lowering configurations."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import time
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scripts.core import process
from scripts.features.variants.specs import dispatches
from scripts.features.variants.specs.dispatches import Dispatch, LoweringConfig
from scripts.iree import gbench
from scripts.iree.backends import allocator_flags
from scripts.iree.session import runtime_flags
from scripts.iree.tools import tool

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
        found: dict[LoweringConfig, float | None] = {}
        with ThreadPoolExecutor(self._threads) as pool:
            for at in range(0, len(configs), self._threads):
                group = configs[at : at + self._threads]
                if self.is_over():
                    break
                # All of a group are compiled before one is timed: a compilation would disturb the timing.
                made = list(pool.map(self._compile, group))
                for config, module in zip(group, made, strict=True):
                    if module is None:
                        found[config] = None
                    elif not self.is_over():
                        found[config] = self._time(config, module)
        return found

    def ratio(self, before: LoweringConfig, after: LoweringConfig) -> float:
        """Time of `before` / time of `after`: the median over turns; 0 if one cannot be run."""
        for config in (before, after):
            if config not in self._timed:
                self.times([config])
        if before not in self._timed or after not in self._timed:
            return 0.0
        found = []
        for _ in range(TURNS):
            first, second = (self._run(*self._timed[config]) for config in (before, after))
            if first is None or second is None:
                return 0.0
            found.append(first / second)
        return statistics.median(found)

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
        command = [
            *(tool("iree-benchmark-module"), f"--module={module}", f"--function={self._function}"),
            f"--device={self._device}",
            *runtime_flags(self._device, self._threads),
            *allocator_flags(self._device),
            *("--benchmark_min_warmup_time=0.01", f"--benchmark_min_time={calls}x"),
            "--benchmark_repetitions=3",
            *(f"--benchmark_out={report}", "--benchmark_out_format=json"),
        ]
        setup = process.child_setup(os.getpid())
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=RUN_S, preexec_fn=setup)  # fmt: skip
            if done.returncode:
                raise gbench.BenchmarkError((done.stderr or done.stdout).strip()[-500:])
            return min(gbench.read_ms(report))
        except (subprocess.TimeoutExpired, gbench.BenchmarkError, OSError, LookupError, ValueError) as error:  # fmt: skip
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
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=COMPILE_S
            )
        except subprocess.TimeoutExpired:
            return None
        return module if done.returncode == 0 else None
