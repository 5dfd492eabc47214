"""Verify a baseline runtime on the same weights and inputs as IREE."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from scripts.baselines.sessions.runtime import (
    BaselineRequest,
    Session,
    Work,
    compile_count,
    compile_seconds,
    open_runtime,
    prepare_process,
    use_cache,
)
from scripts.config import plugins
from scripts.core import commands, exits, extra, process, requests, tensors
from scripts.core.requests import Folders
from scripts.measure.timing import calls
from scripts.measure.timing.calls import Run
from scripts.measure.verify import torch_same
from scripts.measure.verify.verification import FILE, Verification, Verified
from scripts.measure.verify.verify import Expected, follow_generation, verify

WARM_CALLS = 3
"""Calls after the first one within which a runtime stops compiling: training compiles again in the second."""


def verify_baseline(request: BaselineRequest, folders: Folders) -> None:
    """Call a baseline, compare its results with golden ones, and write what was found out.

    Exits if there is no device, if the results are wrong (the file is written first), and if the model cannot be loaded.
    """
    work, collect = request.work, request.collect
    shutil.rmtree(use_cache(folders.own), ignore_errors=True)
    prepare_process(work)
    declared = plugins.runtime(work.runtime)
    runtime, device = open_runtime(work)
    expected = runtime.eager_in_precision(work) if work.precision != "none" else None
    process.reset_peak_rss()
    compiled_before = compile_seconds(runtime, device) or 0.0
    commands.report_working()
    commands.report_part("load")
    session = runtime.open_session(work, device)
    commands.report_part("first call")
    cold = calls.run_calls(session, device, 1, keep=True, watch=True, lazy=declared.lazy)
    begin = time.perf_counter()
    outputs = session.arrays(cold.first)
    first_call_s = cold.first_s + time.perf_counter() - begin
    cold = dataclasses.replace(cold, first=None)  # releases the results on the device
    peak_mb = process.peak_rss_mb()  # golden results are no part of what the runtime needs
    left_out: dict[str, str] = {}
    verification = _verification(session, work, outputs, expected, left_out)
    del expected, outputs
    warm: Run | None = None
    if verification.code == torch_same.PASS:
        process.reset_peak_rss()
        warm = _warm_run(session, device, runtime, declared.lazy, cold.inside)
        peak_mb = max(peak_mb, process.peak_rss_mb())
        session.check()
    compiled_s = compile_seconds(runtime, device)
    memory_mb = extra.or_left_out(extra.DEVICE_MEMORY, device.peak_memory_mb, left_out, None)
    profile = None
    if collect and warm:
        profile = extra.or_left_out(extra.PROFILE, lambda: session.profile(collect), left_out, None)
    Verified(
        device=device.kind,
        device_name=device.name,
        threads=work.threads if device.kind == "cpu" else None,
        verification=verification,
        load_ms=session.load_s * 1e3,
        first_call_ms=first_call_s * 1e3,
        compile_s=None if compiled_s is None else compiled_s - compiled_before,
        runs=(cold.run, warm) if warm else (cold.run,),
        max_rss_mb=round(peak_mb, 1),
        device_memory_mb=memory_mb,
        profile=profile,
        versions=plugins.installed(declared.versions),
        rewrites=session.rewrites,
        left_out=left_out,
    ).write(folders.results / FILE)
    if warm is None:
        exits.fail(f"{verification.code}: {verification.detail}", exits.WRONG_RESULT)


def _warm_run(session: Session, device: Any, runtime: Any, lazy: bool, watch: bool) -> Run:
    """A call for which nothing is compiled any more, or the last of WARM_CALLS."""
    for _ in range(WARM_CALLS):
        before = compile_count(runtime, device)
        ran = calls.run_calls(session, device, 1, watch=watch, lazy=lazy)
        if compile_count(runtime, device) == before:
            break
    return ran.run


def _verification(
    session: Session,
    work: Work,
    outputs: Mapping[str, np.ndarray],
    expected: Expected | None,
    left_out: dict[str, str],
) -> Verification:
    """Compare the first call's results with golden, or with `expected`, and the greedy tokens of a language model. `left_out` gets
    what could not be compared."""
    names = list(outputs) if work.test == "train" else None
    check = work.check
    # A baseline changes its weights in place: it returns the loss and the gradients.
    wanted = expected or check.expected(without=tensors.CHANGE)
    verification = verify(list(outputs.values()), wanted, check.tolerance, names)
    if work.test != "eval":
        return verification
    start_from = list(tensors.load_npz(work.inputs).values())
    signature = check.read_signature()
    return follow_generation(verification, session.call_with, start_from, signature, left_out)


if __name__ == "__main__":
    requests.run(BaselineRequest, verify_baseline)
