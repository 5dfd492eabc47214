"""Verify a compiled module against golden on a device, then time it."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from scripts.lib.artifacts import tensors
from scripts.lib.core import channel, exits
from scripts.lib.core.machine import physical_cores
from scripts.lib.iree import benchmark, in_process
from scripts.lib.iree.backends import runs_on_cpu
from scripts.lib.iree.session import Module, Session
from scripts.lib.timing import rounds
from scripts.lib.timing.arguments import Timing
from scripts.lib.timing.calibration import Calibrator
from scripts.lib.timing.measurement import Measurement, Verification
from scripts.lib.timing.rounds import FirstRound
from scripts.lib.timing.stopping import Schedule, plan, typical_seconds
from scripts.lib.verification import torch_same, training
from scripts.lib.verification.arguments import Check
from scripts.lib.verification.verify import follow_generation, verify

Run = Callable[[Schedule], benchmark.Timed]
"""A function that times calls by a schedule, with iree-benchmark-module or in this process."""

Command = Callable[[Schedule], list[str]]
"""The command line of iree-benchmark-module for a schedule."""


@dataclass(frozen=True)
class Files:
    """`inputs`: inputs.npz of the reference. `raw_inputs`: folder for the inputs as raw bytes. `out`: the
    measurement to write."""

    inputs: Path
    raw_inputs: Path
    out: Path


def measure(
    module: Module,
    device_name: str,
    files: Files,
    check: Check,
    timing: Timing,
    first: FirstRound | None = None,
    observe: Callable[[Sequence[np.ndarray]], None] = lambda _: None,
) -> None:
    """Write the measurement of `module`; with `first`, that of the second round.

    `observe` is called with the outputs of the first call.
    Exits if the results are wrong (the measurement is then written without a latency) and if there are
    more threads than cores. If iree-benchmark-module fails, exits as the tool does.
    """
    threads = _cpu_threads(module.device, timing)
    if first is not None and (why := first.why_last(timing.rule)):
        rounds.write_not_timed(files.out, why)
        return
    types = check.signature().inputs
    stored = tensors.load_npz(files.inputs)
    inputs = [tensors.as_native(stored[str(i)], kind.dtype) for i, kind in enumerate(types)]
    # The row has the times of the first round's load and first call. The second round only makes sure
    # that the module still computes the same, which other stages need not wait for.
    channel.alone() if first is None else channel.working()
    # A slow device may be stopped at any point: the log shows how far it came.
    channel.mark("load")
    print(f"loading on {device_name}", flush=True)
    session = Session(module, timing.threads)
    print(f"loaded in {session.load_s:.3f} s; first call", flush=True)
    channel.mark("first call")
    verification, first_call_s = _verified(
        session, module, inputs, check, timing.threads, first is None, observe
    )
    common: dict[str, Any] = {
        "device": module.device,
        "device_name": device_name,
        "threads": threads,
        "verification": verification,
        "load_ms": session.load_s * 1e3,
        "first_call_ms": first_call_s * 1e3,
        "versions": {"iree": _runtime_version()},
    }
    if verification.code != torch_same.PASS:
        Measurement(**common).write(files.out)
        exits.fail(f"{verification.code}: {verification.detail}", exits.WRONG_RESULT)
    flags = benchmark.write_inputs(files.raw_inputs, inputs, types)
    chosen = first.schedule(timing.rule) if first else _plan(session, inputs, first_call_s, timing)
    found = None
    if chosen is None and in_process.is_for(module.device, first_call_s, timing.rule):
        command = partial(benchmark.command_line, module, flags, timing)
        found, chosen = _timed_here(session.uploaded(inputs), command, timing)
    # While both processes exist, the weights are in the device's memory twice.
    session.close()
    if first is not None:
        channel.alone()
    if found is None:
        report = files.out.with_name("google-benchmark.json")
        run = partial(benchmark.run, module, flags, timing, report=report)
        found = _timed(run, chosen, timing)
    Measurement(**common, **found).write(files.out)


def _runtime_version() -> str:
    """The version of the runtime: of its package, or of a local build, which is no package."""
    try:
        return metadata.version("iree-base-runtime")
    except metadata.PackageNotFoundError:
        from iree.runtime import version

        return version.VERSION or "local"


def _cpu_threads(device: str, timing: Timing) -> int | None:
    """The number of threads on a CPU device; None on other devices."""
    if not runs_on_cpu(device):
        return None
    if timing.threads > physical_cores():
        exits.fail(
            f"measure.threads is {timing.threads}, but IREE pins one worker to each of "
            f"{physical_cores()} cores"
        )
    return timing.threads


def _verified(
    session: Session,
    module: Module,
    inputs: Sequence[np.ndarray],
    check: Check,
    threads: int,
    follow: bool,
    observe: Callable[[Sequence[np.ndarray]], None],
) -> tuple[Verification, float]:
    """The verification of the first call, and the seconds of the call. With `follow`, greedy tokens of a
    language model, or the losses of further training steps, are compared too."""
    outputs, first_call_s = session.call(inputs)
    observe(outputs)
    signature = check.signature()
    names = training.names(signature.outputs)
    compared: Sequence[np.ndarray] = outputs
    if module.weights is not None:
        compared = training.compared(outputs, signature, module.weights)
    if names and len(outputs) != len(names):
        names = None  # which is reported as another number of outputs
    expected = check.expected()
    verification = verify(compared, expected, check.tolerance, names)
    if names:
        verification = training.require_changes(verification, compared, expected)
    del expected, compared
    print(f"first call took {first_call_s:.3f} s: {verification.code}", flush=True)
    if follow and names:
        verification = _follow_training(verification, outputs, module, inputs, check, threads)
    elif follow:
        again = partial(_call_with, session, signature)
        verification = follow_generation(verification, again, inputs, signature)
    return verification, first_call_s


def _follow_training(
    passed: Verification,
    outputs: Sequence[np.ndarray],
    module: Module,
    inputs: Sequence[np.ndarray],
    check: Check,
    threads: int,
) -> Verification:
    """The verification of a training step, after its successors: each is a call with the weights that the one
    before has left."""
    losses = tensors.load_npz(check.golden, training.LOSSES)[training.LOSSES]

    def step(weights: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        session = Session(module, threads, weights)
        outputs, _ = session.call(inputs)
        session.close()
        return outputs

    found = training.follow(passed, outputs, step, check.signature(), losses)
    pairs = zip(found.losses or (), found.golden_losses or (), strict=True)
    for number, (loss, golden) in enumerate(pairs, 1):
        shown = "not finite" if loss is None else f"{loss:.7g}"
        print(f"step {number}: loss {shown}, in eager mode {golden:.7g}")
    if found.train_expected:
        print(f"{found.train_steps} of {found.train_expected} training steps: {found.code}")
    return found


def _call_with(
    session: Session, signature: tensors.Signature, arrays: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """The outputs of the module for other inputs of the same types as the reference's."""
    pairs = zip(arrays, signature.inputs, strict=True)
    return session.call([tensors.as_native(array, kind.dtype) for array, kind in pairs])[0]


def _plan(
    session: Session, inputs: Sequence[np.ndarray], first_call_s: float, timing: Timing
) -> Schedule | None:
    """The schedule of the first round; None if the first call took longer than the budget, because that
    says nothing about later calls."""
    if first_call_s > timing.rule.budget_s:
        return None
    return plan(timing.rule, typical_seconds(session.uploaded(inputs), timing.rule))


def _timed_here(
    call: Callable[[], object], command: Command, timing: Timing
) -> tuple[dict[str, Any] | None, Schedule]:
    """Time one repetition in this process, whose calls are warm. Return the timing fields of the
    measurement, or None if the tool has to measure (more repetitions fit into the budget, or the
    calls are short); and the schedule."""
    once = plan(timing.rule, math.inf)
    with Calibrator(timing.threads) as calibrator:
        shown = shlex.join(command(once))
        run = partial(in_process.run, call, shown, calibrator.resident_mb)
        found = _calibrated(run, once, calibrator)
    call_s = found["latency"].median / 1e3
    chosen = plan(timing.rule, call_s)
    is_all = chosen.repetitions == 1 and call_s >= in_process.LONG_S
    return (found if is_all else None), chosen


def _timed(run: Run, chosen: Schedule | None, timing: Timing) -> dict[str, Any]:
    """The timing fields of the measurement.

    Without a schedule, one repetition is timed after a call that does not count. If the budget allows
    no more, it is the measurement; otherwise the schedule is made from it.
    """
    with Calibrator(timing.threads) as calibrator:
        found = _calibrated(run, chosen or plan(timing.rule, math.inf), calibrator)
    call_s = found["latency"].median / 1e3
    if chosen is None and (chosen := plan(timing.rule, call_s)).repetitions > 1:
        return _timed(run, chosen, timing)
    return found


def _calibrated(run: Run, chosen: Schedule, calibrator: Calibrator) -> dict[str, Any]:
    """One timed run, with calibrations immediately before and after it."""
    calibrator.take()
    channel.mark("timed calls")
    started = time.time()
    timed = run(chosen)
    calibrator.take()
    return {
        "latency": timed.latency,
        "host": timed.host,
        "started": started,
        "calibration": calibrator.result,
        "command": timed.command,
        "max_rss_mb": timed.max_rss_mb,
        "timer": timed.timer,
    }
