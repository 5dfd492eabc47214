"""The feature `operators`: the part of a configuration about operator problems (`operators:`), its rows, and what its rules ask."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from scripts.config import expansion, reading, stages
from scripts.config.cell import OF_BATCHES, Cell, Kind, selects, stands_on
from scripts.config.entries import Baseline, Frontend, Target
from scripts.config.feature import Draft, Feature, Rows
from scripts.config.rows import Matrix, compact
from scripts.config.stages import OUTCOMES, STATUS, Stage
from scripts.iree.backends import BACKENDS
from scripts.measure.timing.ratios import LEAST
from scripts.measure.timing.turns import Rule
from scripts.run import params
from scripts.run.jobs import artifact
from scripts.run.params import Groups
from scripts.run.plan import Plan, digest_of
from scripts.tools.operators.problems import sources
from scripts.tools.operators.problems.argument_values import FLOATING
from scripts.tools.operators.problems.problem import KINDS, Selection

RUNTIMES = ("eager", "inductor")
"""Runtimes of baselines that run single operators."""
DEFAULTS: dict[str, Any] = {"batches": 4, "max_elements": 1_000_000}
"""The values of keys that a configuration leaves out."""
PREFERRED = {"frontends": "torchmlir-stablehlo", "targets": "llvm-cpu", "baselines": "eager"}
"""The entry of each kind that is taken if `operators:` has no globs for the kind. A configuration
without it takes the entries of the models."""
OPERATOR_RULE = Rule(budget_s=1.0, slice_s=0.005, generations=LEAST)
"""How an operator problem is timed, where `operators.measure` does not set another."""


@dataclass(frozen=True)
class Operators:
    """Operator problems, and the lowering paths, targets and baselines that they take.

    `dataset`, `mapping`: paths or hub ids. `traces`: files. If there is neither a dataset nor a trace, the traces of
    the models are the source. `batches`: the number of batches; a problem belongs to one of them by its uuid. `targets`
    have no overrides, which are for models. `compile_only`: names of targets whose modules are not run. `measure`: the
    values that differ from OPERATOR_RULE.
    """

    dataset: str = ""
    mapping: str = ""
    traces: tuple[str, ...] = ()
    selection: Selection = field(default_factory=Selection)
    batches: int = 1
    frontends: dict[str, Frontend] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    baselines: dict[str, Baseline] = field(default_factory=dict)
    compile_only: tuple[str, ...] = ()
    measure: dict[str, Any] = field(default_factory=dict)

    @property
    def of_models(self) -> bool:
        """Whether the problems are those of the traces of the models."""
        return not self.dataset and not self.traces

    @property
    def rule(self) -> Rule:
        """How a problem is timed."""
        return dataclasses.replace(OPERATOR_RULE, **self.measure)

    def batch_names(self) -> list[str]:
        """Return the names of all batches, in order."""
        return [self._batch(number) for number in range(self.batches)]

    def batch_of(self, uuid: str) -> str:
        """Return the name of the batch of a problem. It does not depend on other problems.

        `uuid`: hexadecimal digits, at least 8.
        """
        return self._batch(int(uuid[:8], 16) * self.batches >> 32)

    def _batch(self, number: int) -> str:
        return f"{number:0{len(str(self.batches - 1))}d}"

    def rows(self) -> Iterator[Cell]:
        """Yield the cells of batches whose problems are rows: IREE's, then the baselines'."""
        for batch in self.batch_names():
            for frontend in self.frontends:
                for target in self.targets:
                    yield Cell.of_kind(
                        Kind.BATCH_IREE, batch=batch, frontend=frontend, target=target
                    )
        for batch in self.batch_names():
            for baseline in self.baselines:
                yield Cell.of_kind(Kind.BATCH_BASELINE, batch=batch, baseline=baseline)

    def group(self, row: Cell) -> Cell:
        """The group in which a row is timed: the rows of its batch and device."""
        if row.kind is Kind.BATCH_IREE:
            device = BACKENDS[self.targets[row.target].backend].torch_device
        else:
            device = self.baselines[row.baseline].device
        return Cell.of_kind(Kind.BATCH_GROUP, batch=row.batch, device=device)

    def groups(self) -> dict[Cell, list[Cell]]:
        """The rows of each group that are run."""
        groups: dict[Cell, list[Cell]] = {}
        for row in self.rows():
            if row.target not in self.compile_only:
                groups.setdefault(self.group(row), []).append(row)
        return groups


def part(matrix: Matrix) -> Operators:
    """The operator problems of a matrix."""
    return matrix.parts.get("operators") or Operators()


def read(draft: Draft, matrix: Matrix | None = None) -> Operators:
    """Return the operators of a configuration. The entries that are selected for models are taken for operators too if
    the command line selects them."""
    known, chosen, selections = draft.known, draft.chosen, draft.selections
    problems = draft.problems
    given = DEFAULTS | (draft.config.get("operators") or {})
    selected: dict[str, dict] = {}
    for kind, preferred in PREFERRED.items():
        if kind not in selections and given.get(kind) is not None:
            selected[kind] = _matching(kind, given[kind], known[kind], problems)
        elif kind not in selections and preferred in known[kind]:
            selected[kind] = {preferred: known[kind][preferred]}
        else:
            selected[kind] = chosen[kind]
    if given.get("baselines") is None or "baselines" in selections:
        selected["baselines"] = {n: b for n, b in selected["baselines"].items() if _runs(b)}
    targets = {n: dataclasses.replace(t, overrides=()) for n, t in selected["targets"].items()}
    # Globs of targets that the command line leaves out may match none.
    of_compiled = [] if "targets" in selections else problems
    compiled = _matching("compile_only", given.get("compile_only") or [], targets, of_compiled)
    selection = {key: value for key, value in given.items() if value is not None}
    operators = Operators(
        dataset=os.path.expanduser(given.get("dataset") or ""),
        mapping=os.path.expanduser(given.get("mapping") or ""),
        traces=tuple(map(os.path.expanduser, given.get("traces") or ())),
        selection=msgspec.convert(selection, Selection),
        batches=given["batches"],
        frontends=selected["frontends"],
        targets=targets,
        baselines=selected["baselines"],
        compile_only=tuple(compiled),
        measure=dict(given.get("measure") or {}),
    )
    problems += [f"operators.{problem}" for problem in _problems(operators, chosen["models"])]
    return operators


def _runs(baseline: Baseline) -> bool:
    is_plain = baseline.precision == "none" and not baseline.rewrites
    return baseline.runtime in RUNTIMES and is_plain


def _matching(kind: str, globs: list[str], known: Mapping[str, Any], problems: list[str]) -> dict:
    """Return the entries that globs select, in the order declared. Adds a glob that matches none to `problems`."""
    singular = {"compile_only": "target of operators"}.get(kind, kind.removesuffix("s"))
    problems += expansion.selection_problems(f"operators.{kind}", singular, globs, known)
    return {name: entry for name, entry in known.items() if globs and selects(globs, name)}


def _problems(operators: Operators, models: Mapping[str, Any]) -> Iterator[str]:
    """Yield error messages about the selection, the source and the baselines."""
    yield from reading.not_among("select", [operators.selection.select], KINDS)
    yield from reading.not_among("dtype", filter(None, [operators.selection.dtype]), FLOATING)
    if operators.dataset and operators.traces:
        yield "traces: found next to operators.dataset; give one of the two"
    if operators.mapping and not operators.dataset:
        yield "mapping: belongs to a dataset; set operators.dataset too"
    if not operators.dataset and operators.selection.select == "overhead":
        yield (
            "select: found 'overhead', which only a dataset marks; set operators.dataset, or select "
            "included or all"
        )
    for key in ("dataset", "mapping"):
        if (named := getattr(operators, key)) and not sources.may_be(named):
            yield f"{key}: no file {named}; expected a path or a hub id such as owner/name"
    for file in operators.traces:
        if not os.path.isfile(file):
            yield f"traces: no file {file}"
    for glob in operators.selection.source_models if operators.of_models else ():
        if not any(fnmatchcase(name, glob) for name in models):
            yield f"source_models: {reading.unknown('model', glob, models)}"
    for baseline in operators.baselines.values():
        if not _runs(baseline):
            yield (
                f"baselines: {baseline.name} is of runtime {baseline.runtime}, precision "
                f"{baseline.precision}; single operators run in {' and '.join(RUNTIMES)}, as they are"
            )


def with_absolute_paths(operators: Operators, root: Path) -> Operators:
    """Return the operators for a run in another folder than `root`, the folder of the Snakefile."""

    def absolute(named: str) -> str:
        path = root / named
        return str(path) if named and os.path.exists(path) else named

    return dataclasses.replace(
        operators,
        dataset=absolute(operators.dataset),
        mapping=absolute(operators.mapping),
        traces=tuple(map(absolute, operators.traces)),
    )


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
    read=read,
    absolute=with_absolute_paths,
    entries=entries,
    rows=Rows(OF_BATCHES, lambda row: row.kind in OF_BATCHES, cells, chain, timed),
    plan=OperatorsPlan,
    csv="operators",
    row_set="scripts.tools.operators.report.problem_record",
)
