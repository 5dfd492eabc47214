"""Files, params and limits of the rules of operator problems."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from scripts.features.operators.settings import part
from scripts.matrix.cell import Cell, Kind
from scripts.matrix.entries import Baseline, Target
from scripts.matrix.matrix import Matrix, compact
from scripts.matrix.stage import OUTCOMES, STATUS
from scripts.run import params
from scripts.run.jobs import artifact
from scripts.run.params import Groups
from scripts.run.plan import Plan, digest_of
from scripts.timing.turns import Rule


class OperatorGroups(Groups):
    """The groups of operator problems: the rows of a batch and device."""

    def __init__(self, matrix: Matrix, forked: Callable[[Cell], bool]) -> None:
        super().__init__(matrix, part(matrix).groups(), forked)

    def rule_of(self, group: Cell) -> Rule:
        return part(self.matrix).rule

    def entry(self, row: Cell) -> Target | Baseline:
        operators = part(self.matrix)
        if row.kind is Kind.BATCH_IREE:
            return operators.targets[row.target]
        return operators.baselines[row.baseline]


class OperatorsPlan:
    """PLAN["operators"]."""

    def __init__(self, plan: Plan) -> None:
        self._configured = plan.configured
        self.part = part(plan.configured)
        self.groups = OperatorGroups(plan.configured, plan.row_forked)

    def batch_of_problems(self, *before: str) -> dict[str, str | list[str]]:
        """The problems of a batch, and their outcomes in the stages `before`, as inputs."""
        inputs: dict[str, str | list[str]] = {"batch": "results/operators/batches/{batch}.jsonl"}
        if before:
            inputs["before"] = [artifact(stage, OUTCOMES) for stage in before]
            inputs["upstream"] = [artifact(stage, STATUS) for stage in before]
        return inputs

    def target(self, cell: Cell) -> Target:
        """The target of a batch."""
        return self.part.targets[cell.target]

    def compile(self, cell: Cell) -> str:
        """The target of a batch, as options of scripts.stages.compile_operators."""
        return params.options_of_target(self.target(cell))

    def results(self) -> list[str]:
        """Every file of the stages that the aggregation reads."""
        return list(
            dict.fromkeys(
                stage.path(cell, file)
                for row in self.part.rows()
                for stage, cell in self._configured.timed_chain(row)
                for file in stage.aggregated
            )
        )

    def digest(self) -> str:
        """A hash of everything that the aggregation reads from the matrix."""
        return digest_of(self._configured.to_json()["parts"]["operators"])

    def source(self) -> str:
        """The source and the selection of the operator problems, as JSON."""
        operators = self.part
        source = {
            "dataset": operators.dataset,
            "mapping": operators.mapping,
            "batches": operators.batches,
        }
        return compact(source | {"selection": dataclasses.asdict(operators.selection)})

    def traced(self) -> list[str]:
        """The files of the traces that operator problems come from."""
        if not self.part.of_models:
            return list(self.part.traces)
        return [
            f"results/operators/traces/{model.name}.txt"
            for model in self._configured.models.values()
            if model.source == "module"
        ]

    def dataset_files(self) -> list[str]:
        """The files of the dataset of operator problems; empty for a dataset of the hub."""
        named = (self.part.dataset, self.part.mapping)
        return [name for name in named if name and Path(name).is_file()]
