"""The matrix: models × frontends × targets, and models × baselines × tests; and operator problems.

A model is a file; a frontend, target or baseline is a config entry. Nothing else is edited
to add one. scripts/config/expansion.py makes a matrix of a configuration.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from scripts.config import cell, compile_tables, feature, stages
from scripts.config.cell import PINNED, Cell, EntryName, Kind, Toolchain, pinned_toolchain
from scripts.config.compile_tables import Attempt
from scripts.config.entries import NODE, Baseline, Frontend, Model, Override, Target, is_for_sizes
from scripts.config.stages import Stage
from scripts.iree.backends import BACKENDS


@dataclass(frozen=True)
class Matrix:
    """Everything that a run covers, in the order declared.

    `programs`: the frontends whose programs baselines run or remedies take, whether or not they are
    selected for IREE. `remedied_by`: the names of those that remedies may take. `exported`: models without rows, whose programs
    those of other sizes run.
    `toolchains`: those that are selected. `frontends` and `targets` have the entries of each. `targets` and
    `baselines` have an entry for each number of threads, where `measure` lists several.
    `parts`: those of features (Feature.part), by the name of the feature. `with_limits`: whether the limits of the devices are measured
    for the rows.
    """

    models: dict[str, Model]
    frontends: dict[str, Frontend]
    targets: dict[str, Target]
    baselines: dict[str, Baseline]
    measure: dict[str, Any]
    limits: dict[str, dict[str, int | float]]
    expect: dict[str, Any]
    reference_env: str = "torch-mlir"
    tests: tuple[str, ...] = ("eval",)
    train: dict[str, Any] = field(default_factory=dict)
    dumps: dict[str, Any] = field(default_factory=dict)
    overrides: dict[str, Override] = field(default_factory=dict)
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    programs: dict[str, Frontend] = field(default_factory=dict)
    exported: dict[str, Model] = field(default_factory=dict)
    remedied_by: tuple[str, ...] = ()
    toolchains: dict[str, Toolchain] = field(default_factory=pinned_toolchain)
    parts: dict[str, Any] = field(default_factory=dict)
    with_limits: bool = True

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        """The matrices whose rows are models': this one, and those that are parts of it."""
        return (self, *(part for part in self.parts.values() if isinstance(part, Matrix)))

    def on_cpu(self) -> Matrix:
        """The matrix of the rows that run on the CPU."""
        return dataclasses.replace(
            self,
            targets={name: target for name, target in self.targets.items() if target.on_cpu},
            baselines={name: entry for name, entry in self.baselines.items() if entry.on_cpu},
            parts={},
        )

    def every(self) -> Matrix:
        """A matrix with the entries of all matrices, to look entries up by name. Its rows mean nothing."""
        united: dict[str, Any] = {
            kind: _united(getattr(matrix, kind) for matrix in self.matrices)
            for kind in ("models", "frontends", "baselines", "programs")
        }
        united["models"] = self.exported | united["models"]
        targets = _united(matrix.targets for matrix in self.matrices[::-1])
        parts = {name: part for name, part in self.parts.items() if not isinstance(part, Matrix)}
        return dataclasses.replace(
            self, **united, targets=self.of_parts("target") | targets, parts=parts
        )

    def matrix_of(self, model: str) -> Matrix:
        """The matrix that has a model of this name; this one for an unknown name."""
        return next((matrix for matrix in self.matrices if model in matrix.models), self)

    def of_parts(self, axis: str) -> dict[str, Any]:
        """The entries of an axis (frontend, target, baseline) that the parts of features have, by name."""
        return _united(
            entries(self.parts[name]).get(axis, {})
            for name, declared in feature.LOADED.items()
            if (entries := declared.entries) and name in self.parts
        )

    def cells(self) -> Iterator[tuple[Model, Frontend, Target]]:
        """Yield the cells of IREE, by toolchain those whose frontend and target belong together. Each target has
        the overrides for the model, and what tuning has found."""
        belong = self._pairs()
        for model in self.models.values():
            targets = [target.for_model(model) for target in self.targets.values()]
            for frontend in self.frontends.values():
                if model.source not in frontend.sources or not is_for_sizes(frontend, model):
                    continue
                for target in targets:
                    if (frontend.name, target.name) in belong and target.takes(model, frontend):
                        yield model, frontend, target.by_path(model, frontend.name)

    def _pairs(self) -> set[tuple[str, str]]:
        """The names of the frontends and targets that belong together in a toolchain."""
        return {
            (frontend.name, target.name)
            for toolchain in self.toolchains.values()
            for frontend in self.frontends.values()
            for target in self.targets.values()
            if toolchain.takes(frontend.env, target.env)
        }

    def baseline_cells(self) -> Iterator[tuple[Model, Baseline, str]]:
        """(model, baseline, test) of every baseline cell."""
        for model in self.models.values():
            for baseline in self.baselines.values():
                for test in self.tests if model.source in baseline.sources else ():
                    if is_for_sizes(baseline, model, test):
                        yield model, baseline, test

    def rows(self) -> Iterator[Cell]:
        """The cell of each row, in the order of the rows: IREE's, then the baselines'."""
        for model, frontend, target in self.cells():
            yield iree_cell(model, frontend, target)
        for model, baseline, test in self.baseline_cells():
            yield baseline_cell(model, baseline, test)

    def of_kind(self, kind: Kind) -> list[Cell]:
        """Every cell of a kind: all models, all devices with limits, and for other kinds the cells that the
        rows depend on."""
        if kind is Kind.MODEL:
            return [Cell.of_kind(Kind.MODEL, model=name) for name in self.models]
        for rows in feature.rows():
            if kind in rows.kinds:
                return rows.cells(self, kind)
        if kind is Kind.DEVICE:
            return [Cell.of_kind(Kind.DEVICE, device=name) for name in self.devices()]
        row_kind = Kind.BASELINE if kind is Kind.BASELINE else Kind.IREE
        cells = [row.to(kind) for row in self.rows() if row.kind is row_kind]
        if kind is Kind.PROGRAM:
            cells += [self.program(row) for row in self.rows() if self.runs_program(row)]
            cells += [
                Cell.of_kind(Kind.PROGRAM, model=model.name, frontend=attempt.variant.frontend)
                for model, frontend, target in self.cells()
                for attempt in self.attempts(frontend.name, target)
            ]
        return list(dict.fromkeys(cells))

    def devices(self) -> dict[str, Target | Baseline]:
        """The kinds of devices that rows run on, each with the first entry that does so. A CPU has limits for each
        number of threads: `cpu+2-threads`."""
        return devices_of(self.baselines.values(), self.targets.values())

    def limited_devices(self) -> dict[str, Target | Baseline]:
        """Those of `devices` whose limits the rows are compared with."""
        return self.devices() if self.with_limits else {}

    def attempts(self, frontend: str, target: Target) -> list[Attempt]:
        """What is tried, in order, where the program of a frontend does not compile for a target (which
        has its overrides for the model). A remedy takes the program of the same test, and of the same toolchain
        where it has one."""
        path = EntryName.read(frontend)
        toolchain = next(iter({target.toolchain, path.toolchain} - {PINNED}), PINNED)
        # Kernels have fewer programs than remedies.
        frontends = self.frontends | self.programs
        sources = {name: {*entry.sources} for name, entry in frontends.items()}
        kinds = sources.get(frontend, set())
        alike = [n for n in self.remedied_by if not kinds or kinds & sources.get(n, kinds)]
        tried = []
        for remedy in target.remedies:
            if remedy.frontend:
                other = dataclasses.replace(path, entry=remedy.frontend, toolchain=toolchain)
                if str(other) not in alike:
                    other = other.without("toolchain")
                remedy = msgspec.structs.replace(remedy, frontend=str(other))
            tried.append(remedy)
        return compile_tables.attempts(tried, target.asked(frontend), alike)

    def runs_program(self, row: Cell) -> bool:
        """Whether a row belongs to a baseline that runs the exported program of a frontend."""
        return row.kind is Kind.BASELINE and bool(self.baselines[row.baseline].program)

    def program(self, row: Cell) -> Cell:
        """The program that such a baseline's row runs."""
        source, run = self.models[row.model].source, self.baselines[row.baseline].program
        taking = [name for name in self.programs if source in self.programs[name].sources]
        frontend = next(name for name in run if name in taking)
        return Cell.of_kind(Kind.PROGRAM, model=row.model, frontend=frontend)

    def chain(self, row: Cell) -> list[tuple[Stage, Cell]]:
        """The stages on which a row depends, each with its cell, in order."""
        for rows in feature.rows():
            if rows.owns(row):
                return rows.chain(self, row)
        chain = stages.of_row(row)
        if row.kind is Kind.IREE and row.test == cell.TRAIN:
            gradients = stages.STAGES[cell.REFERENCES[cell.TRAIN]]
            chain.insert(1, (gradients, row.to(gradients.kind)))
        if self.runs_program(row):
            chain.insert(1, (stages.STAGES["export"], self.program(row)))
        if row.kind is Kind.IREE and (program := row.to(Kind.PROGRAM)).model != row.model:
            # The program is that of another size.
            chain.insert(0, (stages.STAGES["reference"], program.to(Kind.MODEL)))
        return chain

    def timed_chain(self, row: Cell) -> list[tuple[Stage, Cell]]:
        """The stages on which a row depends, as in `chain`, and the stage that times it, if the last of them measures."""
        chain = self.chain(row)
        return [*chain, self.timed(row)] if chain[-1][0].measures else chain

    def group(self, row: Cell) -> Cell:
        """The group in which a row is timed: the rows of its model, device, kind of node, number of threads and test."""
        entry: Target | Baseline
        if row.kind is Kind.IREE:
            entry = target = {**self.of_parts("target"), **self.targets}[row.target]
            device = BACKENDS[target.backend].torch_device
        else:
            entry = self.baselines[row.baseline]
            device = entry.device
        if entry.node != NODE:  # another machine
            device = f"{device}+{entry.node}"
        device = str(EntryName(device, threads=row.threads))
        return Cell.of_kind(Kind.GROUP, model=row.model, device=device, test=row.test)

    def timed(self, row: Cell, stage: str = "time") -> tuple[Stage, Cell]:
        """The stage that times a row, and its group. The rows of results/tuned.csv have groups of their own, of the stage
        `time_tuned`."""
        for rows in feature.rows():
            if rows.timed and rows.owns(row):
                return rows.timed(self, row)
        return stages.STAGES[stage], self.group(row)

    def groups(self) -> dict[Cell, list[Cell]]:
        """The rows of each group."""
        groups: dict[Cell, list[Cell]] = {}
        for row in self.rows():
            groups.setdefault(self.group(row), []).append(row)
        return groups

    def target(self, model: str, frontend: str, name: str) -> Target:
        """Return the target of that name, with its overrides for a model and what tuning has found for the
        program of a frontend."""
        entry = self.models[model]
        return self.target_of(name).for_model(entry).by_path(entry, frontend)

    def target_of(self, name: str) -> Target:
        """Return the target of that name; for the name that numbers of threads share, that of one of them."""
        if name in self.targets:
            return self.targets[name]
        return {str(t.axes.without("threads")): t for t in self.targets.values()}[name]

    def all_frontends(self) -> dict[str, Frontend]:
        """The frontends of models, of baselines and of features, by name."""
        return self.of_parts("frontend") | self.frontends | self.programs

    def all_baselines(self) -> dict[str, Baseline]:
        """The baselines of models and of features, by name."""
        return self.of_parts("baseline") | self.baselines

    def override(self, name: str) -> Override:
        """What a TorchBench file sets for the cell of a row, by its name; empty without a file."""
        return self.overrides.get(name, Override())

    def tolerance(self, model: Model, name: str) -> dict[str, Any]:
        """The values of a cell's tolerance that differ from the default. The model's own entry has precedence."""
        return {**self.override(name).tolerance, **model.tolerance}

    def to_json(self) -> dict:
        """The matrix as plain values, for processes without Snakemake. `from_json` is the inverse."""
        return msgspec.to_builtins(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Matrix:
        """The matrix from plain values. Raises msgspec.ValidationError, a ValueError that names the key, if
        they have another form."""
        matrix = msgspec.convert(values, cls)
        typed = {name: declared.part for name, declared in feature.LOADED.items() if declared.part}
        parts = {
            name: msgspec.convert(part, typed[name]) if name in typed and part is not None else part
            for name, part in matrix.parts.items()
        }
        return dataclasses.replace(matrix, parts=parts)


def _united(entries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: entry for part in entries for name, entry in part.items()}


def iree_cell(model: Model, frontend: Frontend, target: Target) -> Cell:
    """The cell of a model, by a frontend, on a target."""
    return Cell.of_kind(Kind.IREE, model=model.name, frontend=frontend.name, target=target.name)


def baseline_cell(model: Model, baseline: Baseline, test: str) -> Cell:
    """The cell of a test of a model under a baseline."""
    return Cell.of_kind(Kind.BASELINE, model=model.name, baseline=baseline.name, test=test)


def compact(value: Any) -> str:
    """One-line JSON with sorted keys, for command lines: equal values give equal commands."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def devices_of(
    baselines: Iterable[Baseline], targets: Iterable[Target]
) -> dict[str, Target | Baseline]:
    """The kinds of devices that entries run on, each with the first of them."""
    devices: dict[str, Target | Baseline] = {}
    for baseline in baselines:
        device = EntryName(baseline.device, threads=baseline.axes.threads)
        devices.setdefault(str(device), baseline)
    for target in targets:
        device = EntryName(target.device_kind, threads=target.axes.threads)
        devices.setdefault(str(device), target)
    return devices
