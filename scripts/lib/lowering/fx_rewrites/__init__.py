"""Rewrites of exported graphs that a frontend, or IREE behind it, does not take as they are.

Each is exact: the rewritten graph gives the values of the original, up to the order of a sum
where its docstring says so. An export names those that changed its graph; `rewrites: none`
leaves every graph as PyTorch made it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch.export import ExportedProgram

from scripts.lib.lowering.fx_rewrites import edit, masks, scatters, values

ROADS = ("torch", "stablehlo", "linalg-on-tensors", "xla")
"""The dialects of torch-mlir, and PyTorch/XLA: what a rewrite may be needed by."""


@dataclass(frozen=True)
class Rewrite:
    """A named rewrite; `apply` changes a program in place and says whether it changed it."""

    name: str
    apply: Callable[[ExportedProgram], bool]
    roads: tuple[str, ...] = ROADS


_TORCH_MLIR = ("torch", "stablehlo", "linalg-on-tensors")
REWRITES = (
    Rewrite("fold-constant-nonzero", values.fold_constant_nonzero),
    Rewrite("scan-of-booleans-in-int64", values.scan_of_booleans_in_int64, ("xla",)),
    Rewrite("index-from-the-front", values.index_from_the_front, ("stablehlo",)),
    Rewrite("scatter-mean-as-sum", scatters.mean_as_sum),
    Rewrite("scatter-without-self", scatters.without_self),
    Rewrite("scatter-sum-as-add", scatters.sum_as_add),
    Rewrite("scatter-add-by-rows", scatters.add_by_rows),
    Rewrite("scatter-reduce-by-columns", scatters.reduce_by_columns, ("xla",)),
    Rewrite("mask-index-at-full-length", masks.at_full_length),
    Rewrite("scatter-reduce-as-comparison", scatters.reduce_as_comparison, _TORCH_MLIR),
    Rewrite("scatter-from-memory", scatters.from_memory),
)
"""In the order of application: each may rely on what those before it leave."""


def apply(program: ExportedProgram, road: str) -> tuple[str, ...]:
    """Rewrite a functional program in place for `road`; the names of what changed it, in order.

    `road`: one of ROADS. A program that needs nothing is not touched. Raises ValueError for
    another road.
    """
    if road not in ROADS:
        raise ValueError(f"road {road!r}; one of {', '.join(ROADS)}")
    chosen = [rewrite for rewrite in REWRITES if road in rewrite.roads]
    names = tuple(rewrite.name for rewrite in chosen if rewrite.apply(program))
    if names:
        edit.finish(program)
    return names
