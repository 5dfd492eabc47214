"""torch.compile with the inductor backend; in default mode with static shapes, unless its entry says otherwise.

Its caches are cold: TORCHINDUCTOR_CACHE_DIR is a folder of this verification alone, so that the
first call and compile_s mean the same in every run. There is one exception. For every new cache,
inductor asks the compiler which vector instructions the machine has (about seven seconds). This
question is answered beforehand, from the cache of the machine.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import torch
import torch._dynamo.utils
import torch._inductor.async_compile
import torch._inductor.cpu_vec_isa

from scripts.core import temporary
from scripts.torch_model.loading import LoadedModel
from scripts.torch_runtime.arguments import Work
from scripts.torch_runtime.torch_device import TorchDevice as Device
from scripts.torch_runtime.torch_session import TorchSession, eager_in_precision

__all__ = [
    "Device",
    "compile_ahead",
    "compile_count",
    "compile_seconds",
    "eager_in_precision",
    "open_session",
    "settle",
]

DEVICES = ("cpu", "cuda")
TESTS = ("eval", "train")
TAKES = ("precision", "compile", "rewrites")
VERSIONS = {"torch": "torch"}
MEMORY_FACTOR = 2.0
FORKABLE = True


DEFAULTS = {"dynamic": False, "fullgraph": False}
"""Arguments of torch.compile that an entry's `compile` may replace."""


def prepare(loaded: LoadedModel, arguments: Mapping[str, Any] = DEFAULTS) -> torch.nn.Module:
    """The callable to measure, compiled in its first call with these arguments of torch.compile."""
    _know_vector_instructions()
    return torch.compile(loaded.module, backend="inductor", **arguments)


def _know_vector_instructions() -> None:
    """Let torch find out what the CPU has, by its cache of the machine: the TMPDIR of a stage is its own, and empty at first.
    In a sandbox it has to use that, for precompiled headers too."""
    if not os.access(temporary.machine(), os.W_OK):
        codecache = torch._inductor.codecache
        headers = os.path.join(codecache.default_cache_dir(), "precompiled_headers")
        codecache._HEADER_DIR, codecache._HEADER_LOCK_DIR = headers, os.path.join(headers, "locks")
        torch._inductor.cpu_vec_isa.valid_vec_isa_list()
        return
    own, own_tempdir = os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None), tempfile.tempdir
    tempfile.tempdir = temporary.machine()
    try:
        torch._inductor.cpu_vec_isa.valid_vec_isa_list()  # kept by torch for this process
    finally:
        tempfile.tempdir = own_tempdir
        if own is not None:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = own


class _Compiled(BaseException):
    """What a call has compiled would be executed now."""


def compile_ahead(session: TorchSession) -> None:
    """Compile what the first call compiles, and do not execute it: it would start threads, which a fork loses."""
    graph = torch._inductor.output_code.CompiledFxGraph

    def stop(*_: Any) -> None:
        raise _Compiled

    execute, graph.__call__ = graph.__call__, stop
    try:
        with torch._inductor.config.patch(compile_threads=1):
            session()
    except _Compiled:
        return
    finally:
        graph.__call__ = execute


def settle() -> None:
    """End the compile workers, which would still be importing torch during the first timed calls."""
    torch._inductor.async_compile.shutdown_compile_workers()


def compile_count() -> int:
    """The number of compilations so far, as counted by PyTorch."""
    spent = torch._dynamo.utils.compilation_time_metrics
    return sum(len(spent.get(name, ())) for name in _COMPILATIONS)


def compile_seconds() -> float | None:
    """Seconds spent in dynamo and inductor so far, as counted by PyTorch.

    A backward pass is compiled at its first call, and not together with its frame.
    """
    spent = torch._dynamo.utils.compilation_time_metrics
    return sum(sum(spent.get(name, ())) for name in _COMPILATIONS) or None


_COMPILATIONS = ("_compile.compile_inner", "backward._backward_impl")


def open_session(work: Work, device: Device) -> TorchSession:
    """The cell's work, ready to be called."""
    arguments = {**DEFAULTS, **work.compile}
    return TorchSession(work, device, functools.partial(prepare, arguments=arguments))
