"""torch.compile with the inductor backend; in default mode with static shapes, unless its entry says otherwise.

Its caches are cold: TORCHINDUCTOR_CACHE_DIR is a folder of this verification alone, so that the
first call and compile_s mean the same in every run. What is the same for all models on a machine is made before (`prepare_machine`).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch._dynamo.utils
import torch._inductor.async_compile
import torch._inductor.codecache as codecache
import torch._inductor.cpu_vec_isa as cpu_vec_isa
from torch._inductor.runtime.cache_dir_utils import default_cache_dir

from scripts.baselines.sessions.runtime import CACHE, Work
from scripts.baselines.sessions.torch_device import TorchDevice as Device
from scripts.baselines.sessions.torch_session import TorchSession, eager_in_precision
from scripts.core import temporary
from scripts.frontends.torch_model.loading import LoadedModel

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
    prepare_machine()
    arguments = {**DEFAULTS, **work.compile}
    return TorchSession(work, device, functools.partial(prepare, arguments=arguments))


_KERNEL = 'extern "C" void kernel(float*) {}'
"""A kernel of no model: torch precompiles the header when it is asked to compile one, with the same flags for all."""


def prepare_machine() -> None:
    """Let torch have what it finds out or makes once per machine, from the machine's folder if that is safe: which vector instructions the
    CPU has (seven seconds), and the precompiled header of its kernels (158 MB, eight seconds of CPU time; with it, a kernel takes a third).

    The TMPDIR of a stage is its own and empty at first, so torch would do both anew in each. A process in a sandbox reads a header that
    is there, and leaves its own in its TMPDIR. Raises OSError.
    """
    shared = _folder()
    headers = Path(default_cache_dir(), "precompiled_headers")
    headers.mkdir(parents=True, exist_ok=True)
    codecache._HEADER_DIR, codecache._HEADER_LOCK_DIR = str(headers), str(headers / "locks")
    writable = shared if shared and os.access(shared, os.W_OK) else None
    with _locked(writable), _cache(writable):
        cpu_vec_isa.valid_vec_isa_list()  # kept by torch for this process
        if shared:
            for path in shared.glob("*.h*"):
                _link(headers / path.name, path)
        codecache.CppPythonBindingsCodeCache.load_pybinding_async(
            ["float*"],
            _KERNEL,
            submit_fn=lambda _compile: None,
        )
        if writable:
            # Complete files only: with one that was cut off, g++ ends with an error.
            for path in headers.glob("*.h*"):
                if not path.is_symlink():
                    path.replace(writable / path.name)
                    _link(path, writable / path.name)


def _link(path: Path, target: Path) -> None:
    with contextlib.suppress(FileExistsError):
        path.symlink_to(target)


def _folder() -> Path | None:
    """This user's folder on this machine. None if there is none and none can be made, or if others than this user can write to it: they could
    put code there that this process runs."""
    path = Path(temporary.machine(), f"{temporary.PREFIX}inductor-{os.getuid()}")
    with contextlib.suppress(OSError):  # it exists, or this process is in a sandbox
        path.mkdir(mode=0o700)
    try:
        at = path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(at.st_mode) and at.st_uid == os.getuid() and not at.st_mode & 0o022:
        return path
    print(f"note: {path} is not used: it should be a folder of this user to which no other can write; delete it", flush=True)  # fmt: skip
    return None


@contextlib.contextmanager
def _locked(folder: Path | None) -> Iterator[None]:
    """One process at a time: the others wait, and then have what it has made."""
    if folder is None:
        yield
        return
    with (folder / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _cache(folder: Path | None) -> Iterator[None]:
    """Inductor's cache is in this folder meanwhile (None: in that for temporary files)."""
    before = os.environ.pop(CACHE, None)
    if folder:
        os.environ[CACHE] = str(folder)
    try:
        yield
    finally:
        os.environ.pop(CACHE, None)
        if before is not None:
            os.environ[CACHE] = before
