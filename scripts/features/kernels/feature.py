"""The feature `kernels`: kernels at shapes, as models with targets and a stopping rule of their own."""

from __future__ import annotations

from pathlib import Path

from scripts.features.kernels import kernel_matrix, kernel_models, kernels
from scripts.features.kernels.plan import KernelsPlan
from scripts.matrix import expansion
from scripts.matrix.feature import Draft, Feature
from scripts.matrix.matrix import Matrix


def read(draft: Draft, matrix: Matrix) -> Matrix | None:
    """The matrix of results/kernels.csv; None if the configuration declares no kernels."""
    # The problems are those of `named`, which have been reported.
    listed = kernel_models.listed(draft.config, draft.root, [])
    return kernel_matrix.expand(
        matrix, draft.config, draft.selections, draft.known, listed, draft.root
    )


def absolute(part: Matrix, root: Path) -> Matrix:
    """The matrix of the kernels for a run in another folder."""
    return expansion.with_absolute_paths(part, root)


FEATURE = Feature(
    "kernels",
    part=Matrix,
    read=read,
    absolute=absolute,
    named=kernel_models.listed,
    suite=kernels.SUITE,
    plan=KernelsPlan,
    csv="kernels",
    modules={
        "row_set": "scripts.features.kernels.row_set",
        "views": "scripts.features.kernels.page_view",
    },
)
