"""Verify a baseline's results, then time it."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scripts.lib.artifacts import tensors
from scripts.lib.baseline.arguments import Work
from scripts.lib.baseline.runtime import (
    Session,
    compile_count,
    compile_seconds,
    open_runtime,
    settle,
)
from scripts.lib.config import plugins
from scripts.lib.core import channel, exits, process
from scripts.lib.timing import calls, rounds
from scripts.lib.timing.calibration import Calibrator
from scripts.lib.timing.hostload import HostWatch
from scripts.lib.timing.measurement import PYTHON, Measurement, Run, Verification
from scripts.lib.timing.rounds import FirstRound
from scripts.lib.timing.stopping import Schedule, StoppingRule, plan, typical_seconds
from scripts.lib.verification import torch_same
from scripts.lib.verification.arguments import Check
from scripts.lib.verification.verify import Expected, follow_generation, verify


def measure(
    work: Work,
    check: Check,
    rule: StoppingRule,
    collect: Collection[str],
    out: Path,
    first: FirstRound | None = None,
) -> None:
    """Write the measurement of a baseline's cell to `out`; with `first`, that of the second round.

    `collect`: the profiles to take after the timing, in the first round. Exits if there is no device,
    if the results are wrong (the measurement is then written without a latency), and if the model
    cannot be loaded.
    """
    if first is not None and (why := first.why_last(rule)):
        rounds.write_not_timed(out, why)
        return
    declared = plugins.runtime(work.runtime)
    runtime, device = open_runtime(work)
    expected = runtime.eager_in_precision(work, check) if work.precision != "none" else None
    process.reset_peak_rss()
    compiled_before = compile_seconds(runtime, device) or 0.0
    channel.working()
    channel.mark("load")
    session = runtime.open_session(work, check, device)
    channel.mark("first call")
    cold = _cold_run(session, device, rule, declared.lazy)
    peak_mb = process.peak_rss_mb()  # golden results are no part of what the runtime needs
    common: dict[str, Any] = {
        "device": device.kind,
        "device_name": device.name,
        "threads": work.threads if device.kind == "cpu" else None,
        "verification": _verify(session, work, check, cold, expected, first is None),
        "load_ms": session.load_s * 1e3,
        "first_call_ms": cold.first_call_s * 1e3,
        "versions": plugins.installed(declared.versions),
        "rewrites": getattr(session, "rewrites", ()),
    }
    del expected
    _require_right(common, out)
    channel.alone()
    timing = SessionTiming(session, device, runtime, rule, declared.lazy, cold.watch, work.threads)
    timed = timing.take(first)
    session.check()
    Measurement(
        **common,
        **timed.measured,
        cold_run_shared=declared.cold_run_beside and channel.is_open(),
        compile_s=None if timed.compiled_s is None else timed.compiled_s - compiled_before,
        runs=(cold.run, *timed.runs),
        max_rss_mb=max(peak_mb, timed.peak_mb),
        device_memory_mb=device.peak_memory_mb(),
        profile=session.profile(collect) if collect and first is None else None,
    ).write(out)


def _require_right(common: dict[str, Any], out: Path) -> None:
    """If the results are wrong, write the measurement without a latency and exit."""
    verification = common["verification"]
    if verification.code != torch_same.PASS:
        Measurement(**common).write(out)
        exits.fail(f"{verification.code}: {verification.detail}", exits.WRONG_RESULT)


RECOMPILED = "recompilation"
"""The reason of a row whose runtime compiled while its calls were timed."""


def _require_compiled(before: int | None, after: int | None) -> None:
    """Exit if the runtime compiled while calls were timed: they do not have the time of a warm call.

    The arguments are its numbers of compilations before and after the calls.
    """
    if before != after:
        exits.fail(
            f"compilations while the calls were timed: {(after or 0) - (before or 0)}, before: {before}; "
            "a value that the compiled code assumes has changed between calls",
            reason=RECOMPILED,
        )


@dataclass(frozen=True)
class _Cold:
    """The cold run. `outputs`: the results of its first call on the host, `first_call_s` seconds after it
    began. `watch`: whether a call executes something before it is waited for."""

    run: Run
    outputs: dict[str, np.ndarray]
    first_call_s: float
    watch: bool


def _cold_run(session: Session, device: Any, rule: StoppingRule, lazy: bool) -> _Cold:
    found = calls.run_calls(
        session,
        device,
        rule.iterations_per_run or 1,
        keep=True,
        watch=True,
        lazy=lazy,
    )
    begin = time.perf_counter()
    outputs = session.arrays(found.first)
    first_call_s = found.first_s + time.perf_counter() - begin
    return _Cold(found.run, outputs, first_call_s, found.inside)


def _verify(
    session: Session,
    work: Work,
    check: Check,
    cold: _Cold,
    expected: Expected | None,
    follow: bool,
) -> Verification:
    """Compare the first call's results with golden, or with `expected`. With `follow`, compare greedy tokens
    of a language model too. The results are released."""
    names = list(cold.outputs) if work.test == "train" else None
    outputs = list(cold.outputs.values())
    cold.outputs.clear()
    # A baseline changes its weights in place: it returns the loss and the gradients.
    wanted = expected or check.expected(without=tensors.CHANGE)
    found = verify(outputs, wanted, check.tolerance, names)
    if work.test != "eval" or not follow:
        return found
    start_from = list(tensors.load_npz(work.inputs).values())
    return follow_generation(found, session.call_with, start_from, check.signature())


@dataclass(frozen=True)
class Timed:
    """`measured`: the fields of the measurement about the repetitions. `compiled_s`: seconds of all
    compilations before the first repetition. `peak_mb`: peak memory of the process meanwhile, MiB."""

    measured: dict[str, Any]
    runs: list[Run]
    compiled_s: float | None
    peak_mb: float


@dataclass(frozen=True)
class SessionTiming:
    """A session that is ready to be timed, and the parameters of the timing. Each call of the session
    is one timed call."""

    session: Callable[[], Any]
    device: Any
    runtime: Any
    rule: StoppingRule
    lazy: bool
    watch: bool
    threads: int

    def take(self, first: FirstRound | None = None) -> Timed:
        """Time the repetitions of the first round, or of the second one if `first` is given."""
        settle(self.runtime)
        process.reset_peak_rss()
        run = functools.partial(
            calls.run_calls, self.session, self.device, watch=self.watch, lazy=self.lazy
        )
        chosen = self._warmed_up(run, first)
        # A training step may compile twice: the second step has gradients and optimizer state.
        compiled_s = compile_seconds(self.runtime, self.device)
        compilations = compile_count(self.runtime, self.device)
        peak_mb = process.peak_rss_mb()
        with Calibrator(self.threads) as calibrator:
            calibrator.take()
            if chosen.warmup_s:
                run(1)  # the caches hold what the calibration has left there
            process.reset_peak_rss()
            channel.mark("timed calls")
            started = time.time()
            with HostWatch(self.threads if self.device.kind == "cpu" else 1) as host:
                made = calls.time_runs(run, chosen, calibrator.take)
            _require_compiled(compilations, compile_count(self.runtime, self.device))
            peak_mb = max(peak_mb, process.peak_rss_mb() - calibrator.resident_mb)
            calibrator.take()
        measured = {
            "latency": calls.latency(made, chosen),
            "host": host.load,
            "started": started,
            "calibration": calibrator.result,
            "timer": PYTHON,
        }
        return Timed(measured, made.runs, compiled_s, round(peak_mb, 1))

    def _warmed_up(self, run: functools.partial[calls.Calls], first: FirstRound | None) -> Schedule:
        """Make the schedule, with calls that do not count: at least one after the cold run."""
        # The cold run includes compilation: its length says nothing about the calls after it.
        made: list[calls.Calls] = []
        call_s = typical_seconds(lambda: made.append(run(1)), self.rule)
        chosen = first.schedule(self.rule, call_s) if first else plan(self.rule, call_s)
        # These calls count as warm-up. One that compiled counts with the present time of a call.
        if (left_s := chosen.warmup_s - len(made) * call_s) > 0:
            calls.warm_up(run, left_s)
        return chosen
