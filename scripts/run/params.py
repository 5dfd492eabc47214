"""Params of the stages that come from the configuration: fields of their requests, and which rows are
timed together, from which files, and how.

Params are functions of wildcards only: in Snakemake, a function of input or output never triggers a
re-run.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from scripts.config import stages
from scripts.config.cell import PINNED, TRAIN, Cell, Kind, thread_numbers
from scripts.config.choices import BASES, BASES_OF, DEFAULT_MATMUL_PRECISION
from scripts.config.entries import Baseline, Target
from scripts.config.rows import Matrix, compact
from scripts.core import requests
from scripts.measure.timing.turns import Rule
from scripts.supervise.group import GroupRequest


def target_fields(target: Target, opt_level: str, flags: Sequence[str]) -> dict[str, Any]:
    """The fields of a CompileRequest for a target, with this opt level and these flags."""
    fields = {
        "backend": target.backend,
        "arch": target.arch,
        "opt_level": opt_level,
        "flags": list(flags),
    }
    return fields | ({"toolchain": target.toolchain} if target.toolchain != PINNED else {})


class Requests:
    """What is requested of the stages of a cell, as JSON: the fields that the configuration sets. A rule hands over the files."""

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix.every()

    def reference(self, cell: Cell) -> str:
        return compact(self._model(cell))

    def gradients(self, cell: Cell) -> str:
        return compact(self._model(cell) | {"optimizer": self.matrix.train})

    def export(self, cell: Cell) -> str:
        frontend = self.matrix.all_frontends()[cell.frontend]
        fields = self._model(cell) | {
            "exporter": frontend.exporter,
            "exporter_options": frontend.options,
            "ir_format": frontend.ir_format,
        }
        if cell.dynamic:
            # The sizes by which the program is found: further ones to measure are no other program.
            declared = self.matrix.models[cell.model].dynamic.items()
            sizes = {name: replace(size, values=size.probes()) for name, size in declared}
            fields["dynamic"] = {name: asdict(size) for name, size in sizes.items()}
        elif cell.test == TRAIN:
            fields |= {"test": TRAIN, "optimizer": self.matrix.train}
        return compact(fields)

    def compile(self, cell: Cell) -> str:
        return compact(self._target(cell))

    def _target(self, cell: Cell) -> dict[str, Any]:
        target = self.matrix.target(cell.model, cell.frontend, cell.target)
        return target_fields(target, target.opt_level, target.flags)

    def verify(self, cell: Cell) -> str:
        device = self.matrix.target(cell.model, cell.frontend, cell.target).device
        return compact(self.verified_on(device, cell) | self.threads(cell))

    def verified_on(self, device: str, cell: Cell) -> dict[str, Any]:
        """The fields of a verification on a device, but for the number of threads."""
        return {"device": device, "tolerance": self._tolerance(cell)}

    def baseline(self, cell: Cell) -> str:
        return compact(self._work(cell) | {"collect": self.matrix.measure.get("collect", [])})

    def dump_baseline(self, cell: Cell) -> str:
        return compact(self._work(cell) | self._dumps("kinds", "save_ir", "repeat", "iterations"))

    def dump_iree(self, cell: Cell) -> str:
        return compact(self._target(cell) | self._dumps("kinds"))

    def machine_limits(self, cell: Cell) -> str:
        return compact({"device": cell.names["device"].entry, **self.threads(cell)})

    def _dumps(self, *keys: str) -> dict[str, Any]:
        """The values that `dumps:` sets for these keys."""
        dumps = self.matrix.dumps
        fields = {key: dumps[key] for key in keys if key in dumps}
        if isinstance(fields.get("save_ir"), str):
            fields["save_ir"] = [fields["save_ir"]]
        return fields

    def _work(self, cell: Cell) -> dict[str, Any]:
        """What a baseline's cell runs and how."""
        baseline = self.matrix.baselines[cell.baseline]
        measure = self.matrix.measure
        fields = self._model(cell) | {
            "runtime": baseline.runtime,
            "device": baseline.device,
            "test": cell.test,
            "precision": baseline.precision,
            "matmul_precision": measure.get("matmul_precision", DEFAULT_MATMUL_PRECISION),
            "tolerance": self._tolerance(cell),
            **self.threads(cell),
        }
        for name in ("xla_flags", "compile", "rewrites"):
            if value := getattr(baseline, name):
                fields[name] = value
        if baseline.program:
            program = self.matrix.program(cell)
            fields["program"] = stages.STAGES["export"].path(program, "program.mlir")
        if cell.test == TRAIN:
            fields["optimizer"] = self.matrix.train
        return fields

    def threads(self, cell: Cell | None = None) -> dict[str, int]:
        """The number of threads, if the configuration sets it. The cell has the number if the configuration lists several."""
        number = self.matrix.measure.get("threads")
        if thread_numbers(self.matrix.measure):
            number = cell.threads if cell else None
        return {"threads": number} if number else {}

    def _model(self, cell: Cell) -> dict[str, Any]:
        return {"name": cell.model, "options": self.matrix.models[cell.model].options}

    def _tolerance(self, cell: Cell) -> dict[str, Any]:
        return dict(self.matrix.tolerance(self.matrix.models[cell.model], str(cell)))


RULE_KEYS = tuple(field.name for field in dataclasses.fields(Rule))


class Groups:
    """Answers the rules' questions about groups. `rows`: those of each group. `forked`: whether the process of a row
    may be forked."""

    def __init__(
        self, matrix: Matrix, rows: dict[Cell, list[Cell]], forked: Callable[[Cell], bool]
    ) -> None:
        self.matrix, self._rows, self._forked = matrix, rows, forked
        self._known = matrix.every()

    def files(self, group: Cell, file: str) -> list[str]:
        """A file of the verification of each member."""
        return [_verified(row, file) for row in self._rows[group]]

    def request(self, group: Cell) -> str:
        """What is timed, as JSON: the fields of the request to the job."""
        rows = self._rows[group]
        # A group of operator problems is of no model.
        bases = BASES_OF[self._known.models[group.model].source] if group.model else BASES
        plain = {base: name for base in bases if (name := self._plain(rows, base))}
        request = GroupRequest(
            members={str(row): _verified(row) for row in rows},
            rule=dataclasses.asdict(self.rule_of(group)),
            anchor=plain.get(bases[0], "") if bases else "",
            bases=tuple(plain.values()),
            pairs=_pairs(rows),
            forked=tuple(str(row) for row in rows if self._forked(row)),
        )
        # Members have an order.
        return json.dumps(requests.plain(request), separators=(",", ":"))

    def rule(self, model: str) -> Rule:
        """How a model is timed: the defaults, replaced by the values of `measure:`."""
        return _rule(self.matrix.matrix_of(model).measure)

    def budget_s(self) -> float:
        """Seconds of turns that a group of the configured models may take."""
        return _rule(self.matrix.measure).most_s

    def rule_of(self, group: Cell) -> Rule:
        return self.rule(group.model)

    def on_device(self, group: Cell) -> Target | Baseline:
        """An entry that runs on the device of a group, which names the node that has it."""
        return self.entry(self._rows[group][0])

    def entry(self, row: Cell) -> Target | Baseline:
        if row.kind is Kind.IREE:
            return self._known.target_of(row.target)
        return self._known.baselines[row.baseline]

    def _plain(self, rows: Sequence[Cell], runtime: str) -> str:
        """The member that is a runtime without options of its own; "" if there is none."""
        for row in rows:
            entry = self.entry(row)
            if isinstance(entry, Baseline) and entry.runtime_name == runtime and entry.is_plain:
                return str(row)
        return ""


def _pairs(rows: Sequence[Cell]) -> tuple[tuple[str, str], ...]:
    """Each row of another toolchain with that of the pinned one, and each one for all sizes with that for this size."""
    return tuple(
        (str(base), str(row))
        for row in rows
        for base in (row.without("toolchain"), row.without("dynamic"))
        if base != row and base in rows
    )


def _verified(row: Cell, file: str = "") -> str:
    return stages.STAGES[stages.LAST[row.kind]].path(row, file)


def _rule(measure: Mapping[str, Any]) -> Rule:
    return Rule(**{key: measure[key] for key in RULE_KEYS if key in measure})
