"""What the rules of kernels ask."""

from __future__ import annotations

from pathlib import Path

from scripts.run.aggregation import Aggregation
from scripts.run.plan import Plan

PLOTS = ("svg", "png")
"""The formats of plots."""


class KernelsPlan(Aggregation):
    """PLAN["kernels"]: the aggregation of the selected kernels."""

    def __init__(self, plan: Plan) -> None:
        kernels = plan.configured.parts.get("kernels")
        self._selected = bool(kernels and kernels.models)
        super().__init__(kernels or plan.configured, plan.maker)

    def results(self) -> list[str]:
        return super().results() if self._selected else []

    def plots(self) -> list[str]:
        """The plots of the selected kernels: results/kernels/<kernel>.svg and .png."""
        models = self.matrix.models.values() if self._selected else ()
        files = dict.fromkeys(model.file for model in models)
        return [f"results/kernels/{Path(file).stem}.{kind}" for file in files for kind in PLOTS]
