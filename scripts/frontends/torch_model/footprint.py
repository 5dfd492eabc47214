"""Checks whether a model's weights fit into a stage's memory, before they are allocated.

They are counted on torch's meta device, where tensors have shapes but no values. This happens in a child process, so that
building cannot change the state of the model file's module.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import math
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import exits
from scripts.core.tensors import Signature

COUNT_TIMEOUT_S = 120
COUNT_BYTES = 2 << 30
"""Maximum memory for counting. A model that computes real values may exceed it; then nothing is known."""


@dataclass(frozen=True)
class Weights:
    """A model's weights: their number, and their bytes as get_model() builds them and as stored."""

    count: int
    built_bytes: int
    kept_bytes: int
    dtype: str


def of_archive(signature: Signature) -> Weights:
    """The weights of a model's archive, from its signature, without building the model."""
    count = sum(math.prod(kind.shape) for kind in signature.parameters)
    return Weights(count, signature.weights_bytes, signature.weights_bytes, signature.dtype)


def require(weights: Weights | None, stage: str, factor: float = 1.0) -> None:
    """Exit as `oom` if `stage` does not have the memory for these weights (None: not known).

    `factor`: peak resident memory as a multiple of their bytes, in addition to 0.4 GB for IREE or 1 GB
    for torch. Exporters and runtimes declare theirs (config/plugins.py). It is the slope between GPT-2
    base (498 MB) and medium (1419 MB), f32 on a CPU; docs/models.md has the figures. References and
    IREE need the weights once. (A reference needs them twice if float64 is computed at once; it goes
    block by block if that does not fit.)
    """
    if weights is None:
        return
    limit, where = limit_bytes(stage)
    if said := shortage(weights, stage, limit, where, factor):
        exits.fail(said, exits.TOO_LARGE)


def shortage(weights: Weights, stage: str, limit: float, where: str, factor: float = 1.0) -> str:
    """How much memory is missing, and what to do; "" if the weights fit into `limit` bytes."""
    needed = max(weights.built_bytes, factor * weights.kept_bytes)
    if needed <= limit:
        return ""
    name = stage or "loading"
    built = weights.built_bytes > weights.kept_bytes
    first = f"; {_gb(weights.built_bytes)} as get_model() builds them" if built else ""
    return (
        f"weights of {_gb(weights.kept_bytes)} ({_billions(weights.count)} parameters, "
        f"{weights.dtype}{first}) need {_gb(needed)} in the {name} stage, and it may use {_gb(limit)} "
        f"({where}); lower the dtype or size, or raise that"
    )


def limit_bytes(stage: str) -> tuple[float, str]:
    """The memory limit of this process in bytes, and where it is set."""
    if said := os.environ.get(exits.LIMIT_VARIABLE):
        name = stage.split()[0] if stage else "<stage>"
        unset = "where it is not set, 80 % of the machine's, on a cluster an estimate"
        return float(said) * 2**20, f"limits.{name}.memory_mb; {unset}"
    import psutil  # a bundle that is measured elsewhere has no such package, and sets the limit

    return float(psutil.virtual_memory().available), "what this machine has available"


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"


def _billions(number: int) -> str:
    return f"{number / 1e9:.2f} G" if number >= 1e9 else f"{number / 1e6:.0f} M"


def count(build: Callable[[], Any], dtype: str) -> Weights | None:
    """The weights of the module that `build` makes, stored in `dtype` (f32, f16 or bf16; f32 is as
    built). None, with a note, if it cannot be built without values."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        _count_and_exit(build, dtype, writer)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as answer:
        said = answer.read()
    os.waitpid(child, 0)
    counts = json.loads(said) if said else {"error": "the count did not end well"}
    if "error" in counts:
        print(f"note: the weights are not counted before they are built: {counts['error']}")
        return None
    return Weights(dtype=dtype, **counts)


def _count_and_exit(build: Callable[[], Any], dtype: str, writer: int) -> None:
    """The child process: write the result and exit."""
    # The parent's garbage must not be freed here: an IREE session, for one, waits for its threads to end,
    # and a forked process has none of them.
    gc.freeze()
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(COUNT_TIMEOUT_S)
        # If the stage reaches its time limit here, its log has to show where the count hangs.
        faulthandler.enable(os.dup(2))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        sys.stdout = sys.stderr = os.fdopen(quiet, "w")
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        # This process's private memory, as RLIMIT_DATA counts it.
        held = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:"))
        resource.setrlimit(resource.RLIMIT_DATA, (held + COUNT_BYTES, hard))
        counts: Mapping[str, int | str] = _counted(build, dtype)
    except BaseException as error:
        counts = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
    os.write(writer, json.dumps(counts).encode())
    os._exit(0)


def _counted(build: Callable[[], Any], dtype: str) -> dict[str, int]:
    import torch

    sizes = {"f16": 2, "bf16": 2}
    with torch.device("meta"):
        module = build()
    counts = {"count": 0, "built_bytes": 0, "kept_bytes": 0}
    for weight in (*module.parameters(), *module.buffers()):
        size = weight.element_size()
        kept = sizes.get(dtype, size) if weight.is_floating_point() else size
        counts["count"] += weight.numel()
        counts["built_bytes"] += weight.numel() * size
        counts["kept_bytes"] += weight.numel() * kept
    return counts
