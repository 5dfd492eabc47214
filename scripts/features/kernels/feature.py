"""The feature `kernels`: kernels at shapes, as models with targets and a stopping rule of their own."""

from __future__ import annotations

from pathlib import Path

from scripts.features.kernels import kernel_matrix, kernel_models, kernels
from scripts.features.kernels.plan import KernelsPlan
from scripts.matrix import expansion
from scripts.matrix.entries import Model
from scripts.matrix.feature import Draft, Feature
from scripts.matrix.matrix import Matrix


def named(draft: Draft) -> dict[str, Model]:
    """The kernels of a configuration."""
    return kernel_models.listed(draft.config, draft.root, draft.problems)


def absolute(part: Matrix, root: Path) -> Matrix:
    """The matrix of the kernels for a run in another folder."""
    return expansion.with_absolute_paths(part, root)


FEATURE = Feature(
    "kernels",
    part=Matrix,
    read=kernel_matrix.read,
    absolute=absolute,
    named=named,
    suite=kernels.SUITE,
    plan=KernelsPlan,
    csv="kernels",
    modules={
        "row_set": "scripts.features.kernels.row_set",
        "views": "scripts.features.kernels.page_view",
    },
)
