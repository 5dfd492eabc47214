"""Run a baseline: the archive's weights and inputs through one of PyTorch's own runtimes."""

from __future__ import annotations

import argparse
import functools
import importlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from scripts.lib.artifacts import tensors
from scripts.lib.config import precision
from scripts.lib.core import exits, process
from scripts.lib.core.machine import physical_cores
from scripts.lib.modeling import convert, errors, golden, loading, source, trees
from scripts.lib.modeling.step import EvalStep, TrainStep, placed, to_training
from scripts.lib.modeling.weights import set_weights, with_arrays, with_inputs
from scripts.lib.timing.hostload import HostWatch
from scripts.lib.timing.latency import Latency
from scripts.lib.timing.measurement import Measurement, Run
from scripts.lib.timing.stopping import Schedule, StoppingRule, plan, typical_seconds
from scripts.lib.torch_runtime import profiling
from scripts.lib.torch_runtime.torch_device import NoDevice
from scripts.lib.verification import torch_same
from scripts.lib.verification.verify import Expected, follow_generation, verify


def measure(args: argparse.Namespace) -> None:
    """Verify, then time; `args` are those of scripts/measure_baseline.py."""
    rule = StoppingRule(**args.rule)
    runtime, device, threads = open_runtime(args)
    expected = eager_in_precision(args)
    process.reset_peak_rss()
    compiled_before = compile_seconds(runtime, device) or 0.0
    built = build(args)
    start = time.perf_counter()
    step = make_step(args, built, runtime, device)
    load_s = time.perf_counter() - start

    # The first run from cold: its first call's results are what is verified.
    lazy = getattr(runtime, "LAZY", False)
    cold = run_calls(step, device, rule.iterations_per_run or 1, keep=True, watch=True, lazy=lazy)
    begin = time.perf_counter()
    outputs = {name: convert.to_numpy(tensor) for name, tensor in step.results(cold.first)}
    first_call_s = cold.first_s + time.perf_counter() - begin
    watch, cold = cold.inside, cold.run  # the first call's results are let go
    peak_mb = process.peak_rss_mb()  # golden results are no part of what the runtime needs
    signature = tensors.Signature.read(args.signature)
    expected = expected or Expected.read(args.golden, signature)
    verification = verify(
        list(outputs.values()),
        expected,
        args.tolerance,
        list(outputs) if args.test == "train" else None,
    )
    if args.test == "eval":
        start_from = list(tensors.load_npz(args.inputs).values())
        decode = functools.partial(call_with, step, device.device)
        verification = follow_generation(verification, decode, start_from, signature)
    common = {
        "device": device.kind,
        "device_name": device.name,
        "threads": threads if device.kind == "cpu" else None,
        "verification": verification,
        "load_ms": load_s * 1e3,
        "first_call_ms": first_call_s * 1e3,
        "versions": device.versions,
    }
    del outputs, expected
    if verification.code != torch_same.PASS:
        Measurement(**common).write(args.out)
        exits.fail(f"{verification.code}: {verification.detail}", exits.WRONG_RESULT)

    process.reset_peak_rss()
    settle(runtime)
    calls = functools.partial(run_calls, step, device, watch=watch, lazy=lazy)
    # The first call has compiled: it says nothing about the calls after it, however long it was.
    chosen = plan(rule, typical_seconds(lambda: calls(1), 0.0, rule))
    warm_up(calls, chosen.warmup_s)
    # A training step may compile twice: the second has gradients and an optimizer's state.
    compiled = compile_seconds(runtime, device)
    with HostWatch() as host:
        runs, cpu_s = time_runs(calls, chosen)
    peak_mb = max(peak_mb, process.peak_rss_mb())
    check_finite(step)
    Measurement(
        **common,
        latency=Latency(
            tuple(run.total_s * 1e3 / run.iterations for run in runs),
            tuple(s * 1e3 / chosen.iterations for s in cpu_s),
            chosen.iterations,
        ),
        host=host.load,
        compile_s=None if compiled is None else compiled - compiled_before,
        runs=(cold, *runs),
        max_rss_mb=peak_mb,
        device_memory_mb=device.peak_memory_mb(),
        profile=profiling.collect(args.collect, step, device) if args.collect else None,
    ).write(args.out)


def open_runtime(args: argparse.Namespace) -> tuple[Any, Any, int]:
    """The runtime's module, its device, and the CPU threads; exits where there is no device."""
    threads = args.threads or physical_cores()
    runtime = importlib.import_module(f"scripts.baselines.{args.runtime}")
    try:
        device = runtime.Device(args.device, threads)
    except NoDevice as error:
        exits.fail(f"no device {args.device}: {error}", exits.UNAVAILABLE)
    device.set_matmul_precision(args.matmul_precision)
    return runtime, device, threads


def settle(runtime: Any) -> None:
    """End what the runtime has left to run beside the timed calls, where it has such a thing."""
    if hasattr(runtime, "settle"):
        runtime.settle()


def compile_seconds(runtime: Any, device: Any) -> float | None:
    """Seconds spent compiling so far, by the runtime's account or its device's."""
    if hasattr(runtime, "compile_seconds"):
        return runtime.compile_seconds()
    counted = device.counters()
    return counted.compile_s if counted else None


def eager_in_precision(args: argparse.Namespace) -> Expected | None:
    """What results in a precision of its own are held to: eager in that precision, on the CPU, and
    the reference's float64 results, as in PyTorch's benchmarks. None for the model's precision."""
    if args.precision == "none":
        return None
    expected = Expected.read(args.golden, tensors.Signature.read(args.signature))
    loaded, autocast = fill(args, build(args))
    context = functools.partial(torch.autocast, "cpu", autocast) if autocast else None
    dtype = precision.compute_dtype(expected.dtype, args.precision)
    try:
        twice = golden.run_twice(eager_step(args, loaded, torch.device("cpu"), context), dtype)
        golden.check(args.model_file, twice.eager)
    except errors.ModelError as error:
        exits.fail(f"eager in {args.precision}: {error}")
    return Expected(twice.types, twice.eager, expected.fp64, twice.deterministic, dtype)


def make_step(
    args: argparse.Namespace, built: loading.LoadedModel, runtime: Any, device: Any
) -> EvalStep | TrainStep:
    """The model with the reference's weights and inputs on the device, as one timed call."""
    loaded, autocast = fill(args, built)
    loaded = placed(loaded, device.device)
    context = functools.partial(device.autocast, autocast) if autocast else None
    step = eager_step(args, loaded, device.device, context)
    step.call = runtime.prepare(loaded.module)
    if isinstance(step, TrainStep):
        optimizer = getattr(torch.optim, args.optimizer.get("name", "SGD"))
        step.set_optimizer(lambda w: optimizer(w, lr=args.optimizer.get("lr", 0.01)))
    device.finish()
    return step


def call_with(
    step: EvalStep, device: torch.device, arrays: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """What the step gives for other inputs than its own, of the same shapes, in their order."""
    own = step.loaded
    step.loaded = with_arrays(own, arrays, device)
    try:
        return [convert.to_numpy(tensor) for _, tensor in step.results(step())]
    finally:
        step.loaded = own


def build(args: argparse.Namespace) -> loading.LoadedModel:
    """The model as its file builds it."""
    try:
        return loading.load(args.name, args.model_file, args.options, f"baseline {args.runtime}")
    except (errors.ModelError, source.ModelFileError) as error:
        exits.fail(str(error))


def fill(
    args: argparse.Namespace, loaded: loading.LoadedModel
) -> tuple[loading.LoadedModel, torch.dtype | None]:
    """The model with the reference's weights and inputs, in the mode of its test and in its
    precision; and what to autocast to, if at all."""
    set_weights(loaded.module, args.weights)
    loaded = with_inputs(loaded, args.inputs)
    if args.test == "train":
        to_training(loaded)
    cast, autocast = PRECISIONS[args.precision]
    if cast is not None:
        loaded.module.to(cast)
        loaded.args, loaded.kwargs = trees.cast_floats((loaded.args, loaded.kwargs), cast)
    return loaded, autocast


def eager_step(
    args: argparse.Namespace, loaded: loading.LoadedModel, device: torch.device, autocast: Any
) -> EvalStep | TrainStep:
    """The test's step, of the module as it is; a training step does not change weights yet."""
    options = {"autocast": autocast} if autocast else {}
    if args.test == "eval":
        return EvalStep(loaded, **options)
    stored = tensors.load_npz(args.golden, "cotangent.")
    kept = [torch.from_numpy(stored[f"cotangent.{i}"]).to(device) for i in range(len(stored))]
    return TrainStep(loaded, kept, **options)


PRECISIONS: dict[str, tuple[torch.dtype | None, torch.dtype | None]] = {
    "none": (None, None),
    "fp16": (torch.float16, None),
    "bf16": (torch.bfloat16, None),
    "amp-fp16": (None, torch.float16),
    "amp-bf16": (None, torch.bfloat16),
}
"""(what weights and floating-point inputs are cast to, autocast's type) by precision."""


@dataclass(frozen=True)
class Calls:
    """A run of calls; the first one's results, if they were to be kept, and its seconds.

    `inside`: whether something was executed before a call was to be finished.
    """

    run: Run
    first: Any
    first_s: float
    inside: bool


def run_calls(
    step: Callable[[], Any],
    device: Any,
    iterations: int,
    *,
    keep: bool = False,
    watch: bool = False,
    lazy: bool = False,
) -> Calls:
    """That many calls, each waited for; with `keep`, the first one's results are kept.

    A call is over when its results are there: the next one is not traced or launched meanwhile.
    `trace_s` is the host's part. With `watch`, what was compiled in it is taken out, and for a `lazy`
    runtime what was executed (for a value that the model's own code looks at); that costs some
    0.1 ms a call, so it is for the cold run, and where there is such a value.
    """
    before = device.counters()
    host_s = inside_s = first_s = 0.0
    first = result = None
    inside = False
    start = time.perf_counter()
    for number in range(iterations):
        result = None  # as in a loop of the user's: not a second set of results beside the next
        launched = device.counters() if watch else None
        call = time.perf_counter()
        result = step()
        host_s += time.perf_counter() - call
        if launched:
            spent = device.counters() - launched
            inside = inside or spent.execute_count > 0
            inside_s += spent.compile_s + (spent.execute_s if lazy else 0.0)
        device.finish()
        if not number:
            first, first_s = result if keep else None, time.perf_counter() - start
    total_s = time.perf_counter() - start
    if before is None:
        return Calls(Run(total_s, iterations), first, first_s, inside)
    spent = device.counters() - before
    run = Run(
        total_s,
        iterations,
        host_s - inside_s,
        spent.compile_s,
        spent.compile_count,
        spent.execute_s,
        spent.execute_count,
    )
    return Calls(run, first, first_s, inside)


def warm_up(calls: Callable[[int], Calls], seconds: float) -> None:
    """Whole calls for that long."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        calls(1)


def time_runs(calls: Callable[[int], Calls], chosen: Schedule) -> tuple[list[Run], list[float]]:
    """One run a repetition; also the CPU seconds of each."""
    runs, cpu_s = [], []
    for _ in range(chosen.repetitions):
        cpu = time.process_time()
        runs.append(calls(chosen.iterations).run)
        cpu_s.append(time.process_time() - cpu)
    return runs, cpu_s


def check_finite(step: EvalStep | TrainStep) -> None:
    """A training loop that has diverged was timed on infinities: no latency of the model's."""
    if isinstance(step, TrainStep):
        loss = float(step()[0][1])
        if not math.isfinite(loss):
            exits.fail(f"training diverged while it was timed: the loss is {loss}; lower train.lr")
