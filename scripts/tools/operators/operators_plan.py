"""The feature `operators`: its rows, and what the rules of operator problems ask."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scripts.config import stages
from scripts.config.cell import OF_BATCHES, Cell, Kind, stands_on
from scripts.config.entries import Baseline, Target
from scripts.config.feature import Feature, Rows
from scripts.config.rows import Matrix, compact
from scripts.config.stages import OUTCOMES, STATUS, Stage
from scripts.measure.timing.turns import Rule
from scripts.run import params
from scripts.run.jobs import artifact
from scripts.run.params import Groups
from scripts.run.plan import Plan, digest_of
from scripts.tools.operators import settings
from scripts.tools.operators.settings import Operators, part


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
        self._plan, self._configured, self._requests = plan, plan.configured, plan.requests
        self.part = part(plan.configured)
        self.groups = OperatorGroups(plan.configured, plan.row_forked)

    def batch_of_problems(self, *before: str) -> dict[str, str | list[str]]:
        """The problems of a batch, and their outcomes in the stages `before`, as inputs."""
        inputs: dict[str, str | list[str]] = {"problems": "results/operators/batches/{batch}.jsonl"}
        if before:
            inputs["before"] = [artifact(stage, OUTCOMES) for stage in before]
            inputs["upstream"] = [artifact(stage, STATUS) for stage in before]
        return inputs

    def target(self, cell: Cell) -> Target:
        """The target of a batch."""
        return self.part.targets[cell.target]

    def export_request(self, cell: Cell) -> str:
        frontend = self._configured.all_frontends()[cell.frontend]
        return compact({"exporter": frontend.exporter, "exporter_options": frontend.options})

    def compile_request(self, cell: Cell) -> str:
        target = self.target(cell)
        return compact(params.target_fields(target, target.opt_level, target.flags))

    def verify_request(self, cell: Cell) -> str:
        return compact({"device": self.target(cell).device, **self._requests.threads()})

    def baseline_request(self, cell: Cell) -> str:
        baseline = self._plan.baseline(cell)
        fields = {"runtime": baseline.runtime, "device": baseline.device}
        return compact(fields | self._requests.threads())

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


def cells(matrix: Matrix, kind: Kind) -> list[Cell]:
    """All cells of a kind of batches."""
    if kind is Kind.BATCH_GROUP:
        return list(part(matrix).groups())
    from_rows = [row for row in part(matrix).rows() if stands_on(row.kind, kind)]
    return list(dict.fromkeys(row.to(kind) for row in from_rows))


def chain(matrix: Matrix, row: Cell) -> list[tuple[Stage, Cell]]:
    """The stages of a batch's problems; without the last one for targets that only compile."""
    in_chain = stages.of_row(row)
    return in_chain[:-1] if row.target in part(matrix).compile_only else in_chain


def timed(matrix: Matrix, row: Cell) -> tuple[Stage, Cell]:
    """The stage that times the problems of a batch, and their group."""
    return stages.STAGES["operator_time"], part(matrix).group(row)


def entries(operators: Operators) -> Mapping[str, Mapping[str, Any]]:
    """The frontends and baselines of operator problems."""
    return {"frontend": operators.frontends, "baseline": operators.baselines}


FEATURE = Feature(
    "operators",
    part=Operators,
    read=settings.read,
    absolute=settings.with_absolute_paths,
    entries=entries,
    rows=Rows(OF_BATCHES, lambda row: row.kind in OF_BATCHES, cells, chain, timed),
    plan=OperatorsPlan,
    csv="operators",
    row_set="scripts.tools.operators.report.problem_record",
)
