"""A model with the archive's weights and the reference's inputs, in one of PyTorch's own runtimes."""

from __future__ import annotations

import functools
import math
import mmap
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from scripts.baselines.sessions.runtime import Session, Work, open_runtime
from scripts.config import choices, plugins
from scripts.core import exits, tensors
from scripts.frontends.sources.load_model import load_model
from scripts.frontends.torch_model import convert, errors, golden
from scripts.frontends.torch_model.loading import (
    LoadedModel,
    named_weights,
    set_weights,
    with_arrays,
    with_inputs,
)
from scripts.frontends.torch_model.step import EvalStep, TrainStep, placed, to_training
from scripts.measure.verify.verify import Expected

Prepare = Callable[[LoadedModel], Callable]
"""A runtime's function from a loaded model to the callable to measure."""

PRECISIONS: dict[str, tuple[torch.dtype | None, torch.dtype | None]] = {
    "none": (None, None),
    "fp16": (torch.float16, None),
    "bf16": (torch.bfloat16, None),
    "amp-fp16": (None, torch.float16),
    "amp-bf16": (None, torch.bfloat16),
}
"""By precision: (the type to which weights and floating-point inputs are cast, the type of autocast)."""


class TorchSession(Session):
    """The model on its device. `load_s`: seconds to fill and place the built model."""

    def __init__(self, work: Work, device: Any, prepare: Prepare) -> None:
        self._device = device
        built = _ahead.pop() if _ahead else build(work)
        start = time.perf_counter()
        self.step, self.rewrites = _step(work, built, device, prepare)
        self.load_s = time.perf_counter() - start

    def __call__(self) -> Any:
        return self.step()

    def adopt_fork(self) -> None:
        """Prepare a process that was forked after this session was opened: the weights get pages of their own."""
        renew_thread_pool()
        weights, _ = named_weights(self.step.loaded.module)
        for weight in weights.values():
            for tensor in _plain(weight):
                # The kernel copies a page that a forked process writes to.
                storage = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
                storage[:: mmap.PAGESIZE].add_(0)
                storage[-1:].add_(0)

    def arrays(self, results: Any) -> dict[str, np.ndarray]:
        return {name: convert.to_numpy(tensor) for name, tensor in self.step.results(results)}

    def call_with(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        own = self.step.loaded
        self.step.loaded = with_arrays(own, arrays, self._device.device)
        try:
            return list(self.arrays(self.step()).values())
        finally:
            self.step.loaded = own

    def check(self) -> None:
        """Exit if a training loop has diverged: calls on infinities do not represent the model."""
        if isinstance(self.step, TrainStep):
            loss = float(self.step()[0][1])
            if not math.isfinite(loss):
                exits.fail(f"training diverged while it was timed: the loss is {loss}; lower train.lr")  # fmt: skip

    def profile(self, kinds: Collection[str]) -> dict[str, Any]:
        return collect(kinds, self.step, self._device)


def _plain(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors with memory that a tensor consists of: of a quantized one, more than one."""
    if is_traceable_wrapper_subclass(tensor):
        names, _ = tensor.__tensor_flatten__()
        for name in names:
            yield from _plain(getattr(tensor, name))
    else:
        yield tensor


def renew_thread_pool() -> None:
    """Have PyTorch replace the thread pool that a forked process has inherited.

    It does so when it is first asked for the pool, and aborts ("Invalid thread pool!", ParallelOpenMP.cpp, PyTorch 2.15)
    if a second thread asks meanwhile, as the threads of a backward pass do.
    """
    torch.set_num_threads(torch.get_num_threads())


_ahead: list[LoadedModel] = []


def prepare_fork(work: Work) -> tuple[Any, Any, TorchSession] | None:
    """Do before a fork what takes long and needs one thread: with more, this process could not be forked.

    The model is built. For PyTorch's own runtimes on a CPU, its session is opened and compiled as well, and this returns the
    runtime, its device and the session. Others start threads when they are opened: then it returns None.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    build_ahead(replace(work, model=replace(work.model, load_threads=1)))
    torch.set_num_threads(before)
    if work.device != "cpu" or plugins.runtime(work.runtime).versions.keys() != {"torch"}:
        return None
    runtime, device = open_runtime(work)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    session = runtime.open_session(work, device)
    torch.set_num_threads(threads)
    if hasattr(runtime, "compile_ahead"):
        runtime.compile_ahead(session)
    return runtime, device, session


def build_ahead(work: Work) -> LoadedModel:
    """The model, which is that of the session that is opened next."""
    _ahead.append(build(work))
    return _ahead[-1]


def build(work: Work) -> LoadedModel:
    """The model as its file builds it."""
    factor = plugins.runtime(work.runtime).memory_factor
    with errors.reported():
        return load_model(work.model, f"baseline {work.runtime}", factor)


def eager_in_precision(work: Work) -> Expected:
    """The golden results for a baseline's precision: eager in that precision on the CPU, and the
    reference's float64 results, as in PyTorch's benchmarks."""
    expected = work.check.expected(without=tensors.CHANGE)
    loaded, autocast = _fill(work, build(work))
    context = functools.partial(torch.autocast, "cpu", autocast) if autocast else None
    dtype = choices.compute_dtype(expected.dtype, work.precision)
    with errors.reported(f"eager in {work.precision}: "):
        step = _eager_step(work, loaded, torch.device("cpu"), context)
        twice = golden.run_twice(step, dtype)
        golden.check(work.model.model_file, twice.eager)
    return Expected(twice.types, twice.eager, expected.fp64, twice.deterministic, dtype)


def _step(
    work: Work, built: LoadedModel, device: Any, prepare: Prepare
) -> tuple[EvalStep | TrainStep, tuple[str, ...]]:
    """The model with the reference's weights and inputs on the device, as one timed call; and the names of
    the rewrites that have changed its graph."""
    loaded, autocast = _fill(work, built)
    loaded = placed(loaded, device.device)
    rewrites: tuple[str, ...] = ()
    if work.rewrites:
        loaded, rewrites = _rewritten_for_speed(loaded)
    context = functools.partial(device.autocast, autocast) if autocast else None
    step = _eager_step(work, loaded, device.device, context)
    step.call = prepare(loaded)
    if isinstance(step, TrainStep):
        optimizer = getattr(torch.optim, work.optimizer.name)
        arguments = dict(work.optimizer.arguments)
        if arguments.get("nesterov") and not arguments.get("weight_decay"):
            # PyTorch's foreach implementation, the default on GPUs, adds the momentum to the gradients in place
            # (torch/optim/sgd.py, 2.9 and 2.15), and the gradients are results that are compared.
            arguments["foreach"] = False
        weights = [p for p in loaded.module.parameters() if p.requires_grad]
        step.optimizer = optimizer(weights, **arguments)
    device.finish()
    return step, rewrites


def _rewritten_for_speed(loaded: LoadedModel) -> tuple[LoadedModel, tuple[str, ...]]:
    """The captured graph, rewritten as exporters do it, as a model of the flat tensor inputs; and the names of the rewrites.

    Its outputs are the tensors among the model's outputs, in order. Exits as `unsupported` if no
    rewrite changes the graph, because the row would repeat that of the model as it is.
    """
    from scripts.frontends.lowering import capture, fx_rewrites  # import torch.export

    with torch.no_grad():
        program = capture.flat_program(loaded)
    names = fx_rewrites.apply(program, fx_rewrites.SPEED)
    if not names:
        exits.fail("no rewrite for speed changes the graph of this model", exits.UNSUPPORTED)
    inputs = tuple(tensor for _, tensor in loaded.inputs)
    # Without the checks of the inputs, which no other baseline makes in each call.
    module = program.module(check_guards=False)
    module.validate_inputs = False
    return replace(loaded, module=module, args=inputs, kwargs={}), names


def _fill(work: Work, loaded: LoadedModel) -> tuple[LoadedModel, torch.dtype | None]:
    """The model with the reference's weights and inputs, in the mode of its test and in its precision, and
    the type of autocast, or None."""
    set_weights(loaded.module, work.weights)
    loaded = with_inputs(loaded, work.inputs)
    if work.test == "train":
        to_training(loaded)
    cast, autocast = PRECISIONS[work.precision]
    if cast is not None:
        loaded.module.to(cast)
        loaded.args, loaded.kwargs = convert.cast_floats((loaded.args, loaded.kwargs), cast)
    return loaded, autocast


def _eager_step(
    work: Work, loaded: LoadedModel, device: torch.device, autocast: Any
) -> EvalStep | TrainStep:
    """The step of the test in eager mode. A training step does not update the weights."""
    options = {"autocast": autocast} if autocast else {}
    if work.test == "eval":
        return EvalStep(loaded, **options)
    stored = tensors.load_npz(work.check.golden, tensors.COTANGENT)
    kept = [
        torch.from_numpy(stored[f"{tensors.COTANGENT}{i}"]).to(device) for i in range(len(stored))
    ]
    return TrainStep(loaded, kept, **options)


US = 1e-6


def collect(kinds: Collection[str], step: Callable[[], Any], device: Any) -> dict[str, Any]:
    """Make one more call of the step for each requested kind (`measure.collect`).

    `profiler`: CPU and device seconds of the call. `operators`: the same by operator; on an XLA device
    only for operators that ran on the CPU instead, on others for every aten operator.
    `dynamo_counters`: dynamo's counters in this process.
    """
    profiles: dict[str, Any] = {}
    if {"profiler", "operators"} & set(kinds):
        recording = profiled(step, device)
        if "profiler" in kinds:
            profiles["profiler"] = totals(recording)
        if "operators" in kinds:
            profiles["operators"] = operators(recording, device.fallback_operators())
    if "dynamo_counters" in kinds:
        profiles["dynamo_counters"] = dynamo_counters()
    return profiles


def profiled(step: Callable[[], Any], device: Any, iterations: int = 1) -> profile:
    """PyTorch's profile of a number of calls, including the device's work."""
    activities = [ProfilerActivity.CPU]
    if device.kind == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities) as recording:
        for _ in range(iterations):
            held = step()  # a lazy result that nobody holds is never computed
            device.finish()
            del held
    return recording


def totals(recording: profile) -> dict[str, float]:
    """CPU and device seconds from a profile."""
    events = recording.key_averages()
    cpu = sum(e.self_cpu_time_total for e in events if e.device_type == DeviceType.CPU) * US
    cuda = sum(e.self_device_time_total for e in events if e.device_type == DeviceType.CUDA) * US
    return {"total_cpu_time_s": cpu, "total_cuda_time_s": cuda}


def operators(recording: profile, only: Collection[str] | None) -> dict[str, dict[str, float]]:
    """Seconds and calls by aten operator; only those in `only`, if that is given."""
    return {
        event.key: {
            "self_cpu_time_s": event.self_cpu_time_total * US,
            "self_cuda_time_s": event.self_device_time_total * US,
            "total_cpu_time_s": event.cpu_time_total * US,
            "total_cuda_time_s": event.device_time_total * US,
            "num_of_calls": event.count,
        }
        for event in recording.key_averages()
        if (event.key in only if only is not None else event.key.startswith("aten::"))
    }


def dynamo_counters() -> dict[str, dict[str, int]]:
    """torch._dynamo's counters as plain values: frames, graph breaks, inductor's fusions, …"""
    from torch._dynamo.utils import counters

    return {group: dict(counted) for group, counted in counters.items() if counted}


KernelFunctions = Mapping[str, Callable]
"""The library's functions by the names of kernels."""

EPS = 1e-5
"""The epsilon of the norms in models/kernels/."""


def open_kernel_session(
    work: Work, device: Any, package: str, functions: Callable[[], KernelFunctions]
) -> TorchSession:
    """The session of a kernel of models/kernels/, by the function of a library for CUDA, which gets the kernel's inputs by name and
    returns its results in their order.

    `functions` imports the library. Exits as unavailable if the package is not installed, and as
    unsupported if it has no such kernel.
    """
    file = work.model.model_file
    name = file.stem if file.parent.parts[-2:] == ("models", "kernels") else ""
    try:
        known = functions()
    except ImportError as error:
        env = Path(sys.prefix).name
        exits.fail(
            f"no package {package} in this environment ({error}); add it to envs/{env}.yaml and run "
            f"`vmfbench lock {env}`",
            exits.UNAVAILABLE,
        )
    if name not in known:
        exits.fail(
            f"{work.runtime} has no kernel {name or work.model.name}; it has {', '.join(known)}",
            exits.UNSUPPORTED,
        )
    return TorchSession(work, device, lambda _: known[name])
