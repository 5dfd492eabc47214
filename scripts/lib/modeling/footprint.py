"""Whether a model's weights fit into what a stage may use, said before they are allocated."""

from __future__ import annotations

import os
from dataclasses import dataclass

import psutil

from scripts.lib.core import exits

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
    if said := os.environ.get(exits.LIMIT_VARIABLE):
        name = stage.split()[0] if stage else "<stage>"
        unset = "where it is not set, 80 % of the machine's, on a cluster an estimate"
        return float(said) * 2**20, f"limits.{name}.memory_mb; {unset}"
    return float(psutil.virtual_memory().available), "what this machine has available"


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"


def _billions(number: int) -> str:
    return f"{number / 1e9:.2f} G" if number >= 1e9 else f"{number / 1e6:.0f} M"
