"""torch.compile with the inductor backend; in default mode with static shapes, unless its entry says otherwise.

Its caches are cold: TORCHINDUCTOR_CACHE_DIR is a folder of this verification alone, so that the
first call and compile_s mean the same in every run. What is the same for all models on a machine is made before
(scripts/torch_runtime/inductor_machine.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch._dynamo.utils
import torch._inductor.async_compile

from scripts.torch_model.loading import LoadedModel
from scripts.torch_runtime import inductor_machine
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
    return torch.compile(loaded.module, backend="inductor", **arguments)


class _Compiled(BaseException):
    """All that a call compiles is compiled, and would be executed now."""


def compile_ahead(session: TorchSession) -> None:
    """Compile what the first call compiles, without starting a thread, which a fork would lose.

    Graphs are executed only if dynamo has broken the model into several, as the next one is compiled after the one before; in training,
    only the first one is compiled.
    """
    graph = torch._inductor.output_code.CompiledFxGraph
    execute = graph.__call__

    def execute_if_more_follow(*arguments: Any) -> Any:
        if torch.is_grad_enabled() or not torch._dynamo.utils.counters["graph_break"]:
            raise _Compiled
        stay_alone()
        return execute(*arguments)

    graph.__call__ = execute_if_more_follow
    try:
        with _no_further_threads() as stay_alone, torch._inductor.config.patch(compile_threads=1):
            session()
    except _Compiled:
        return
    finally:
        graph.__call__ = execute


@contextlib.contextmanager
def _no_further_threads() -> Iterator[Callable[[], None]]:
    """Let parallel regions have this thread alone, by omp_set_max_active_levels(0) (OpenMP 5.2, 18.2.16): generated code requests a number of
    threads of its own. Yields a function that does the same for libraries of OpenMP that were loaded meanwhile."""
    before: dict[str, int] = {}

    def stay_alone() -> None:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as lines:
            paths = {line.split(maxsplit=5)[-1].rstrip("\n") for line in lines}
        for path in paths - before.keys():
            if _OPENMP.match(os.path.basename(path)):
                library = ctypes.CDLL(path)
                before[path] = library.omp_get_max_active_levels()
                library.omp_set_max_active_levels(0)

    stay_alone()
    try:
        yield stay_alone
    finally:
        for path, levels in before.items():
            ctypes.CDLL(path).omp_set_max_active_levels(levels)


_OPENMP = re.compile(r"lib(g|i)?omp\d*[-.]")


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
    inductor_machine.prepare()
    arguments = {**DEFAULTS, **work.compile}
    return TorchSession(work, device, functools.partial(prepare, arguments=arguments))
