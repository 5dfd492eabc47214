"""Checks whether a model's weights fit into a stage's memory, before they are allocated."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from scripts.core import exits
from scripts.core.tensors import Signature


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
    for torch. Exporters and runtimes declare theirs (matrix/plugins.py). It is the slope between GPT-2
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
