"""Whether a model's weights fit into what a stage may use, said before they are allocated.

The weights are counted by building the model on torch's meta device, where tensors have shapes and
no values, in a child process: whatever that does to the model file's own state stays there.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from scripts.lib import exits

LIMIT_VARIABLE = "VMFBENCH_MEMORY_MB"
"""In a stage's environment: the MiB that its process tree may hold, set by the supervisor."""

# Peak resident memory by the bytes of the weights, beside 0.4 GB (IREE) or 1 GB (torch): the slope
# between GPT-2 base (498 MB) and medium (1419 MB), torch 2.15, torch-mlir 20261001, PyTorch/XLA 2.9,
# f32 on a CPU. docs/models.md has the figures. What is not here takes its weights at least.
FACTORS = {
    "reference": 1.0,  # 2.0 with float64 at once, which goes block by block where that does not fit
    "export torch_mlir": 1.0,
    "export torch_xla": 2.4,
    "measure": 1.0,
    "baseline eager": 1.0,
    "baseline inductor": 2.0,
    "baseline xla": 1.3,
}
COUNT_TIMEOUT_S = 120
COUNT_BYTES = 2 << 30
"""What counting may allocate: a model that computes real values has no estimate."""


@dataclass(frozen=True)
class Weights:
    """A model's weights: how many, their bytes as get_model() builds them, and as they are kept."""

    count: int
    built_bytes: int
    kept_bytes: int
    dtype: str


def require(weights: Weights | None, stage: str) -> None:
    """Exit as `oom` where a stage of FACTORS cannot hold these weights; None: not known."""
    if weights is None:
        return
    limit, where = limit_bytes(stage)
    if said := shortage(weights, stage, limit, where):
        exits.fail(said, exits.TOO_LARGE)


def shortage(weights: Weights, stage: str, limit: float, where: str) -> str:
    """What is missing, and what to do; "" where the weights fit into `limit` bytes."""
    needed = max(weights.built_bytes, FACTORS.get(stage, 1.0) * weights.kept_bytes)
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
    """What this process may hold, and where that is said."""
    if said := os.environ.get(LIMIT_VARIABLE):
        name = stage.split()[0] if stage else "<stage>"
        unset = "where it is not set, 80 % of the machine's, on a cluster an estimate"
        return float(said) * 2**20, f"limits.{name}.memory_mb; {unset}"
    return float(psutil.virtual_memory().available), "what this machine has available"


def count(build: Callable[[], Any], dtype: str) -> Weights | None:
    """The weights of the module that `build` makes, kept in `dtype` (f32, f16 or bf16; f32 is as
    built); None, with a note, where it cannot be built without values."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        _count_and_exit(build, dtype, writer)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as answer:
        said = answer.read()
    os.waitpid(child, 0)
    found = json.loads(said) if said else {"error": "the count did not end well"}
    if "error" in found:
        print(f"note: the weights are not counted before they are built: {found['error']}")
        return None
    return Weights(dtype=dtype, **found)


def _count_and_exit(build: Callable[[], Any], dtype: str, writer: int) -> None:
    """The child's part: it says what it found, and nothing else, and ends."""
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(COUNT_TIMEOUT_S)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        sys.stdout = sys.stderr = os.fdopen(quiet, "w")
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + COUNT_BYTES, hard))
        found = _counted(build, dtype)
    except BaseException as error:
        found = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
    os.write(writer, json.dumps(found).encode())
    os._exit(0)


def _counted(build: Callable[[], Any], dtype: str) -> dict[str, int]:
    import torch

    sizes = {"f16": 2, "bf16": 2}
    with torch.device("meta"):
        module = build()
    found = {"count": 0, "built_bytes": 0, "kept_bytes": 0}
    for weight in (*module.parameters(), *module.buffers()):
        size = weight.element_size()
        kept = sizes.get(dtype, size) if weight.is_floating_point() else size
        found["count"] += weight.numel()
        found["built_bytes"] += weight.numel() * size
        found["kept_bytes"] += weight.numel() * kept
    return found


def _data_bytes() -> int:
    """This process's private memory, as RLIMIT_DATA counts it."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:"))


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"


def _billions(number: int) -> str:
    return f"{number / 1e9:.2f} G" if number >= 1e9 else f"{number / 1e6:.0f} M"
