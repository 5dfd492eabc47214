"""Verify a baseline's results, then time it."""

from __future__ import annotations

import functools
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scripts.lib.artifacts import tensors
from scripts.lib.baseline.arguments import Work
from scripts.lib.baseline.runtime import Session, compile_seconds, open_runtime, settle
from scripts.lib.config import plugins
from scripts.lib.core import channel, exits, process
from scripts.lib.timing import calls
from scripts.lib.timing.hostload import HostWatch
from scripts.lib.timing.latency import HostLoad, Latency
from scripts.lib.timing.measurement import Measurement, Run, Verification
from scripts.lib.timing.stopping import StoppingRule, plan, typical_seconds
from scripts.lib.verification import torch_same
from scripts.lib.verification.arguments import Check
from scripts.lib.verification.verify import Expected, follow_generation, verify


def measure(
    work: Work, check: Check, rule: StoppingRule, collect: Collection[str], out: Path
) -> None:
    """Write the measurement of a baseline's cell to `out`.

    `collect`: the profiles to take after the timing. Exits where there is no device, where the
    results are wrong (the measurement is written without a latency), and where the model cannot be
    loaded.
    """
    declared = plugins.runtime(work.runtime)
    runtime, device = open_runtime(work)
    expected = runtime.eager_in_precision(work, check) if work.precision != "none" else None
    process.reset_peak_rss()
    compiled_before = compile_seconds(runtime, device) or 0.0
    channel.working()
    session = runtime.open_session(work, check, device)
    cold = _cold_run(session, device, rule, declared.lazy)
    peak_mb = process.peak_rss_mb()  # golden results are no part of what the runtime needs
    verification = _verify(session, work, check, cold.outputs, expected or check.expected())
    common = {
        "device": device.kind,
        "device_name": device.name,
        "threads": work.threads if device.kind == "cpu" else None,
        "verification": verification,
        "load_ms": session.load_s * 1e3,
        "first_call_ms": cold.first_call_s * 1e3,
        "versions": plugins.installed(declared.versions),
    }
    cold.outputs.clear()
    del expected
    if verification.code != torch_same.PASS:
        Measurement(**common).write(out)
        exits.fail(f"{verification.code}: {verification.detail}", exits.WRONG_RESULT)
    channel.alone()
    process.reset_peak_rss()
    timed = _time(session, device, runtime, rule, declared.lazy, cold.watch)
    peak_mb = max(peak_mb, process.peak_rss_mb())
    session.check()
    Measurement(
        **common,
        latency=timed.latency,
        host=timed.host,
        cold_run_shared=declared.cold_run_beside and channel.is_open(),
        compile_s=None if timed.compiled_s is None else timed.compiled_s - compiled_before,
        runs=(cold.run, *timed.runs),
        max_rss_mb=peak_mb,
        device_memory_mb=device.peak_memory_mb(),
        profile=session.profile(collect) if collect else None,
    ).write(out)


@dataclass(frozen=True)
class _Cold:
    """The first run from cold. `outputs`: what its first call gave, on the host, `first_call_s`
    seconds after it began; `watch`: whether a call executes before it is to be finished."""

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
    session: Session, work: Work, check: Check, outputs: dict[str, np.ndarray], expected: Expected
) -> Verification:
    """The first call's results against golden, and a language model against its greedy tokens."""
    names = list(outputs) if work.test == "train" else None
    found = verify(list(outputs.values()), expected, check.tolerance, names)
    if work.test != "eval":
        return found
    start_from = list(tensors.load_npz(work.inputs).values())
    return follow_generation(found, session.call_with, start_from, check.signature())


@dataclass(frozen=True)
class _Timed:
    """The repetitions; `compiled_s`: all that the runtime had compiled before the first of them."""

    latency: Latency
    host: HostLoad
    runs: list[Run]
    compiled_s: float | None


def _time(
    session: Session, device: Any, runtime: Any, rule: StoppingRule, lazy: bool, watch: bool
) -> _Timed:
    settle(runtime)
    run = functools.partial(calls.run_calls, session, device, watch=watch, lazy=lazy)
    # The first call has compiled: it says nothing about the calls after it, however long it was.
    chosen = plan(rule, typical_seconds(lambda: run(1), 0.0, rule))
    calls.warm_up(run, chosen.warmup_s)
    # A training step may compile twice: the second has gradients and an optimizer's state.
    compiled_s = compile_seconds(runtime, device)
    with HostWatch() as host:
        runs, cpu_s = calls.time_runs(run, chosen)
    latency = Latency(
        tuple(run.total_s * 1e3 / run.iterations for run in runs),
        tuple(s * 1e3 / chosen.iterations for s in cpu_s),
        chosen.iterations,
    )
    return _Timed(latency, host.load, runs, compiled_s)
