"""Whether a model's weights fit into what a stage may use, said before they are allocated."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

import psutil

from scripts.lib.artifacts.tensors import Signature
from scripts.lib.core import exits


@dataclass(frozen=True)
class Weights:
    """A model's weights: how many, their bytes as get_model() builds them, and as they are kept."""

    count: int
    built_bytes: int
    kept_bytes: int
    dtype: str


def of_archive(signature: Signature) -> Weights:
    """The weights of a model's archive, by its signature: nothing builds the model."""
    count = sum(math.prod(kind.shape) for kind in signature.parameters)
    return Weights(count, signature.weights_bytes, signature.weights_bytes, signature.dtype)


def require(weights: Weights | None, stage: str, factor: float = 1.0) -> None:
    """Exit as `oom` where `stage` cannot hold these weights; None: not known.

    `factor`: its peak resident memory by their bytes, beside 0.4 GB of IREE or 1 GB of torch.
    Exporters and runtimes declare theirs (config/plugins.py), as the slope between GPT-2 base (498
    MB) and medium (1419 MB), f32 on a CPU; docs/models.md has the figures. References and IREE take
    the weights once (a reference twice with float64 at once, which goes block by block where that does
    not fit).
    """
    if weights is None:
        return
    limit, where = limit_bytes(stage)
    if said := shortage(weights, stage, limit, where, factor):
        exits.fail(said, exits.TOO_LARGE)


def shortage(weights: Weights, stage: str, limit: float, where: str, factor: float = 1.0) -> str:
    """What is missing, and what to do; "" where the weights fit into `limit` bytes."""
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
