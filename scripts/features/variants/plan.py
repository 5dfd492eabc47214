"""What rules ask about other ways to compile: who makes a module, and what results/tuned.csv needs."""

from __future__ import annotations

import dataclasses

from scripts.features.variants import tuned_matrix, tuning
from scripts.features.variants.remedy_plan import Remedies
from scripts.features.variants.tuning_plan import Tuning
from scripts.iree import tuning_spec
from scripts.matrix import reading, threads
from scripts.matrix.cell import Cell
from scripts.run.aggregation import digest_of
from scripts.run.groups import Groups
from scripts.run.plan import Plan


class ModuleMaker(Remedies):
    """Modules are made by compilations, by remedies where these fail, and by tuning for the rows of
    results/tuned.csv."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.matrix, plan.environments)
        self.tuning = Tuning(plan.configured, self)
        self.search_s = tuned_matrix.part(plan.configured).budget_s

    def modules(self, cell: Cell, file: str) -> list[str]:
        if self.tuning.is_row(cell):
            return [self.tuning.made(cell, file.removesuffix("module.vmfb"))]
        return super().modules(cell, file)

    def stand(self, cell: Cell) -> bool:
        return self.tuning.is_row(cell) or super().stand(cell)

    def take_part(self, cell: Cell) -> bool:
        return not self.tuning.is_row(cell) and super().take_part(cell)

    def specs(self, cell: Cell) -> list[str]:
        """The user's tuning spec that the flags of a cell name, as an input: its text is not in the flags. The names of
        those that tuning has found have their CRC-32."""
        target = self.matrix.target(cell.model, cell.frontend, cell.target)
        path = tuning_spec.named(target.flags)
        return [str(path)] if path and not path.is_relative_to(tuning.FOLDER) else []


class VariantsPlan:
    """PLAN["variants"]."""

    def __init__(self, plan: Plan) -> None:
        self._matrix, self._aggregation = plan.configured, plan.aggregation
        assert isinstance(plan.maker, ModuleMaker)
        self.remedies, self.tuning = plan.maker, plan.maker.tuning
        self.groups = Groups(plan.configured, tuned_matrix.groups(plan.configured), plan.row_forked)

    def results(self) -> list[str]:
        """Every file that the aggregation of tuned models reads. Raises ConfigError for several numbers of threads: a
        module is tuned for one."""
        matrix = self._matrix
        if listed := threads.numbers(matrix.measure):
            raise reading.ConfigError(
                f"measure.threads is the list {[*listed]}, but results/tuned.csv needs a single number, for example: "
                f"--config measure='{{threads: {listed[-1]}}}'"
            )
        rows = [*tuned_matrix.rows(matrix), *tuned_matrix.baselines(matrix)]
        return [
            *self._aggregation.of_rows(rows, "time_tuned"),
            *self._aggregation.machine_limits(tuned_matrix.devices(matrix)),
        ]

    def digest(self) -> str:
        """A hash of everything that the aggregation of tuned models reads from the matrix."""
        parts = {name: part for name, part in self._matrix.parts.items() if name == "variants"}
        return digest_of(dataclasses.replace(self._matrix, parts=parts, expect={}).to_json())
