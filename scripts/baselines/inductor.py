"""torch.compile with the inductor backend, default mode, static shapes.

Its caches are cold: TORCHINDUCTOR_CACHE_DIR is a folder of the measurement's own, so that the
first call and compile_s mean the same in every run. But which vector instructions this machine
has, which inductor asks the compiler once for every cache (some seven seconds), is asked before
that, in the cache of this machine.
"""

from __future__ import annotations

import functools
import os

import torch
import torch._dynamo.utils
import torch._inductor.async_compile
import torch._inductor.cpu_vec_isa

from scripts.lib.modeling.loading import LoadedModel
from scripts.lib.torch_runtime.session import TorchSession, eager_in_precision
from scripts.lib.torch_runtime.torch_device import TorchDevice as Device

__all__ = ["Device", "compile_seconds", "eager_in_precision", "open_session", "settle"]

DEVICES = ("cpu", "cuda")
TESTS = ("eval", "train")
TAKES = ("precision",)
LAZY = False
VERSIONS = {"torch": "torch"}
MEMORY_FACTOR = 2.0
FORKABLE = True
COLD_RUN_BESIDE = True  # it compiles for ten seconds and more, on the host


def prepare(loaded: LoadedModel) -> torch.nn.Module:
    """The callable to measure; it compiles in its first call."""
    _know_vector_instructions()
    return torch.compile(loaded.module, backend="inductor", dynamic=False, fullgraph=False)


def _know_vector_instructions() -> None:
    own = os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)
    try:
        torch._inductor.cpu_vec_isa.valid_vec_isa_list()  # kept by torch for this process
    finally:
        if own is not None:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = own


def settle() -> None:
    """End the compile workers: they go on importing torch beside the first timed calls."""
    torch._inductor.async_compile.shutdown_compile_workers()


def compile_seconds() -> float | None:
    """Seconds in dynamo and inductor so far, by PyTorch's own account.

    A backward pass is compiled at its first call, outside the compilation of its frame.
    """
    spent = torch._dynamo.utils.compilation_time_metrics
    return sum(sum(spent.get(name, ())) for name in _COMPILATIONS) or None


_COMPILATIONS = ("_compile.compile_inner", "backward._backward_impl")


open_session = functools.partial(TorchSession, prepare=prepare)
