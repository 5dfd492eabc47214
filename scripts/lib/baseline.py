"""Run a baseline: the archive's weights and inputs through one of PyTorch's own runtimes."""

from __future__ import annotations

import argparse
import importlib
import resource
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.utils import _pytree as pytree

from scripts.lib import archive, compare, exits, model, tensors
from scripts.lib.hostload import HostWatch, cpu_name, physical_cores
from scripts.lib.latency import Latency
from scripts.lib.measurement import Measurement
from scripts.lib.process import rss_mb
from scripts.lib.stopping import Schedule, StoppingRule, plan, typical_seconds
from scripts.lib.verify import verify


def measure(args: argparse.Namespace) -> None:
    """Verify, then time; `args` are those of scripts/measure_baseline.py."""
    if args.device == "cuda" and not torch.cuda.is_available():
        exits.fail("no device cuda: torch.cuda.is_available() is False", exits.UNAVAILABLE)
    try:
        loaded = model.load(args.name, args.model_file, args.options)
    except model.ModelError as error:
        exits.fail(str(error))
    rule = StoppingRule(**args.rule)
    threads = args.threads or physical_cores()
    torch.set_num_threads(threads)
    runtime = importlib.import_module(f"scripts.baselines.{args.runtime}")
    signature = tensors.Signature.read(args.signature)
    synchronize = torch.cuda.synchronize if args.device == "cuda" else lambda: None

    start = time.perf_counter()
    set_weights(loaded.module, args.weights)
    loaded = with_inputs(loaded, args.inputs)
    loaded = to_device(loaded, args.device)
    prepared = model.LoadedModel(
        loaded.name, runtime.prepare(loaded.module), loaded.args, loaded.kwargs
    )
    synchronize()
    ready = time.perf_counter()
    outputs = [model.to_numpy(tensor) for _, tensor in prepared()]
    first_call_s = time.perf_counter() - ready
    common = {
        "device": args.device,
        "device_name": torch.cuda.get_device_name() if args.device == "cuda" else cpu_name(),
        "threads": threads if args.device == "cpu" else None,
        "verification": verify(outputs, args.golden, signature, args.tolerance),
        "load_ms": (ready - start) * 1e3,
        "first_call_ms": first_call_s * 1e3,
        "versions": {"torch": torch.__version__},
    }
    verification = common["verification"]
    if verification.code != compare.PASS:
        Measurement(**common).write(args.out)
        exits.fail(f"{verification.code}: {verification.detail}", exits.WRONG_RESULT)

    def call() -> None:
        with torch.no_grad():
            prepared.module(*prepared.args, **prepared.kwargs)

    compile_s = runtime.compile_seconds()
    runtime.settle()
    # The first call has compiled: it says nothing about the calls after it, however long it was.
    chosen = plan(rule, typical_seconds(lambda: _timed(call, 1, synchronize), 0.0, rule))
    with HostWatch() as watch:
        latency = time_calls(call, chosen, synchronize)
    Measurement(
        **common,
        latency=latency,
        host=watch.load,
        compile_s=compile_s,
        max_rss_mb=round(rss_mb(resource.getrusage(resource.RUSAGE_SELF)), 1),
    ).write(args.out)


def time_calls(
    call: Callable[[], None], chosen: Schedule, synchronize: Callable[[], object]
) -> Latency:
    """Warm up, then one value a repetition; the device is idle before and after each."""
    end = time.perf_counter() + chosen.warmup_s
    while time.perf_counter() < end:
        _timed(call, 1, synchronize)
    wall, cpu = [], []
    for _ in range(chosen.repetitions):
        cpu_start = time.process_time()
        wall.append(_timed(call, chosen.iterations, synchronize) * 1e3 / chosen.iterations)
        cpu.append((time.process_time() - cpu_start) * 1e3 / chosen.iterations)
    return Latency(tuple(wall), tuple(cpu), chosen.iterations)


def _timed(call: Callable[[], None], count: int, synchronize: Callable[[], object]) -> float:
    """Seconds for `count` calls, the device's work inside the timed region."""
    synchronize()
    start = time.perf_counter()
    for _ in range(count):
        call()
    synchronize()
    return time.perf_counter() - start


def set_weights(module: torch.nn.Module, path: Path) -> None:
    """Fill every weight from the archive, so that no runtime computes with others."""
    weights, _ = model.named_weights(module)
    stored = archive.read(path)
    if missing := sorted(weights.keys() ^ stored.keys()):
        exits.fail(f"{path} and the model differ in {missing[0]} (of {len(missing)}): run reference again")  # fmt: skip
    with torch.no_grad():
        for key, weight in weights.items():
            data = torch.from_numpy(stored[key].copy()).view(weight.dtype).reshape(weight.shape)
            weight.copy_(data)


def with_inputs(loaded: model.LoadedModel, path: Path) -> model.LoadedModel:
    """The same model with every tensor input from the reference's file, as a tensor of its own.

    Not copied in place: an input may be an expanded view, whose memory overlaps.
    """
    stored = tensors.load_npz(path)
    positions = iter(range(len(stored)))
    args, kwargs = pytree.tree_map_only(
        torch.Tensor,
        lambda old: torch.from_numpy(stored[str(next(positions))]).to(old.dtype),
        (loaded.args, loaded.kwargs),
    )
    return model.LoadedModel(loaded.name, loaded.module, args, kwargs)


def to_device(loaded: model.LoadedModel, device: str) -> model.LoadedModel:
    """The model and its inputs on `device`; on the CPU, as they are."""
    if device == "cpu":
        return loaded
    args, kwargs = pytree.tree_map_only(
        torch.Tensor, lambda t: t.to(device), (loaded.args, loaded.kwargs)
    )
    return model.LoadedModel(loaded.name, loaded.module.to(device), args, kwargs)
