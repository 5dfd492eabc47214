"""The feature `kernels`: kernels at shapes, as models with targets and a stopping rule of their own."""

from __future__ import annotations

from pathlib import Path

from scripts.features.kernels import kernel_matrix, kernel_models, kernels
from scripts.matrix import expansion
from scripts.matrix.feature import Draft, Feature
from scripts.matrix.matrix import Matrix
from scripts.run import outputs
from scripts.run.plan import PLOTS, Plan


def read(draft: Draft, matrix: Matrix) -> Matrix | None:
    """The matrix of results/kernels.csv; None if the configuration declares no kernels."""
    # The problems are those of `named`, which have been reported.
    listed = kernel_models.listed(draft.config, draft.root, [])
    return kernel_matrix.expand(
        matrix, draft.config, draft.selections, draft.known, listed, draft.root
    )


class KernelsPlan:
    """PLAN["kernels"]."""

    def __init__(self, plan: Plan) -> None:
        self._aggregation = plan.aggregation
        self.matrix: Matrix | None = plan.configured.parts.get("kernels")

    def results(self) -> list[str]:
        """Every file that the aggregation of kernels reads: those of the rows, and the limits of their devices."""
        if not self.matrix or not self.matrix.models:
            return []
        return self._aggregation.with_limits(self.matrix)

    def plots(self) -> list[str]:
        """The plots of the selected kernels: results/kernels/<kernel>.svg and .png."""
        models = self.matrix.models.values() if self.matrix else ()
        files = dict.fromkeys(model.file for model in models)
        return [f"results/kernels/{Path(file).stem}.{kind}" for file in files for kind in PLOTS]

    def digest(self) -> str:
        """A hash of everything that the aggregation reads from the matrix."""
        return self._aggregation.digest(self.matrix)

    def measuring_code(self) -> str:
        """A hash of the code that measures and verifies rows."""
        return self._aggregation.measuring_code(self.matrix)


FEATURE = Feature(
    "kernels",
    part=Matrix,
    read=read,
    absolute=expansion.with_absolute_paths,
    named=kernel_models.listed,
    suite=kernels.SUITE,
    plan=KernelsPlan,
    tables=outputs.files_of("kernels"),
    summary="scripts.features.kernels.page",
)
