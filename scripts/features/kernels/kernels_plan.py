"""The feature `kernels`: kernels at shapes, as models with targets and a stopping rule of their own."""

from __future__ import annotations

from pathlib import Path

from scripts.features.kernels import kernel_matrix
from scripts.matrix import expansion
from scripts.matrix.entries import Model
from scripts.matrix.feature import Draft, Feature
from scripts.matrix.matrix import Matrix
from scripts.run.plan import Aggregation, Plan

PLOTS = ("svg", "png")
"""The formats of plots."""


def named(draft: Draft) -> dict[str, Model]:
    """The kernels of a configuration."""
    return kernel_matrix.listed(draft.config, draft.root, draft.problems)


class KernelsPlan(Aggregation):
    """PLAN["kernels"]: the aggregation of the selected kernels."""

    def __init__(self, plan: Plan) -> None:
        part = plan.configured.parts.get("kernels")
        self._selected = bool(part and part.models)
        super().__init__(part or plan.configured, plan.modules)

    def results(self) -> list[str]:
        return super().results() if self._selected else []

    def plots(self) -> list[str]:
        """The plots of the selected kernels: results/kernels/<kernel>.svg and .png."""
        models = self.matrix.models.values() if self._selected else ()
        files = dict.fromkeys(model.file for model in models)
        return [f"results/kernels/{Path(file).stem}.{kind}" for file in files for kind in PLOTS]


FEATURE = Feature(
    "kernels",
    part=Matrix,
    read=kernel_matrix.read,
    absolute=expansion.with_absolute_paths,
    named=named,
    plan=KernelsPlan,
    csv="kernels",
    row_set="scripts.features.kernels.rows",
)
