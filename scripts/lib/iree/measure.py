"""Verify a compiled module against golden on a device, then time it."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from scripts.lib.artifacts import tensors
from scripts.lib.core import channel, exits
from scripts.lib.core.machine import physical_cores
from scripts.lib.iree import benchmark
from scripts.lib.iree.backends import runs_on_cpu
from scripts.lib.iree.session import Module, Session
from scripts.lib.timing.arguments import Timing
from scripts.lib.timing.measurement import Measurement
from scripts.lib.timing.stopping import plan, typical_seconds
from scripts.lib.verification import torch_same
from scripts.lib.verification.arguments import Check
from scripts.lib.verification.verify import follow_generation, verify


def measure(
    module: Module,
    device_name: str,
    inputs_file: Path,
    check: Check,
    timing: Timing,
    raw_inputs: Path,
    out: Path,
) -> None:
    """Write the measurement of `module` to `out`.

    `inputs_file`: the reference's inputs.npz; `raw_inputs`: folder that gets them as raw bytes.
    Exits where the results are wrong (the measurement is written without a latency), where
    there are more threads than cores, and as iree-benchmark-module does where that fails.
    """
    threads = _cpu_threads(module.device, timing)
    types = check.signature().inputs
    stored = tensors.load_npz(inputs_file)
    inputs = [tensors.as_native(stored[str(i)], kind.dtype) for i, kind in enumerate(types)]
    # A slow device may be stopped anywhere: the log says how far it came.
    channel.alone()
    print(f"loading on {device_name}", flush=True)
    session = Session(module, timing.threads)
    print(f"loaded in {session.load_s:.3f} s; first call", flush=True)
    common, first_call_s = _verified(session, inputs, check)
    common |= {
        "device": module.device,
        "device_name": device_name,
        "threads": threads,
        "load_ms": session.load_s * 1e3,
        "versions": {"iree": importlib.metadata.version("iree-base-runtime")},
    }
    verification = common["verification"]
    if verification.code != torch_same.PASS:
        Measurement(**common).write(out)
        exits.fail(f"{verification.code}: {verification.detail}", exits.WRONG_RESULT)
    call_s = typical_seconds(partial(session.call, inputs), first_call_s, timing.rule)
    # The weights are in the device's memory a second time while both processes live.
    del session
    flags = benchmark.write_inputs(raw_inputs, inputs, types)
    report = out.with_name("google-benchmark.json")
    timed = benchmark.run(module, flags, timing, plan(timing.rule, call_s), report)
    Measurement(
        **common,
        latency=timed.latency,
        host=timed.host,
        command=timed.command,
        max_rss_mb=timed.max_rss_mb,
    ).write(out)


def _cpu_threads(device: str, timing: Timing) -> int | None:
    """The threads that compute on a CPU device; None on another."""
    if not runs_on_cpu(device):
        return None
    if timing.threads > physical_cores():
        exits.fail(
            f"measure.threads is {timing.threads}, but IREE pins one worker to each of "
            f"{physical_cores()} cores"
        )
    return timing.threads


def _verified(
    session: Session, inputs: Sequence[np.ndarray], check: Check
) -> tuple[dict[str, Any], float]:
    """What the measurement says of the first call, and that call's seconds."""
    outputs, first_call_s = session.call(inputs)
    verification = verify(outputs, check.expected(), check.tolerance)
    print(f"first call took {first_call_s:.3f} s: {verification.code}", flush=True)
    signature = check.signature()
    again = partial(_call_with, session, signature)
    verification = follow_generation(verification, again, inputs, signature)
    return {"verification": verification, "first_call_ms": first_call_s * 1e3}, first_call_s


def _call_with(
    session: Session, signature: tensors.Signature, arrays: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """What the module gives for other inputs than the reference's, of the same types."""
    pairs = zip(arrays, signature.inputs, strict=True)
    return session.call([tensors.as_native(array, kind.dtype) for array, kind in pairs])[0]
