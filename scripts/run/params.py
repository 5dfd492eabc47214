"""Params of the stages that come from the configuration: the options of their commands, and which rows are timed together, from
which files, and how.

Params are functions of wildcards only: in Snakemake, a function of input or output never triggers a
re-run.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import msgspec

from scripts.matrix import stages
from scripts.matrix.cell import (
    EVAL,
    PINNED,
    TRAIN,
    Cell,
    Kind,
    is_dynamic,
    of_this_size,
    thread_numbers,
)
from scripts.matrix.choices import BASES, BASES_OF, DEFAULT_MATMUL_PRECISION
from scripts.matrix.entries import Baseline, Target
from scripts.matrix.matrix import Matrix, compact
from scripts.supervise.group import Given
from scripts.timing.turns import Rule


def compile_words(target: Target, opt_level: str, flags: Sequence[str]) -> list[str]:
    """The options of scripts.stages.compile_iree for a target, with this opt level and these flags."""
    return [
        *("--backend", target.backend, f"--arch={target.arch}"),
        *("--opt-level", opt_level, "--flags", compact(flags)),
        *(("--toolchain", target.toolchain) if target.toolchain != PINNED else ()),
    ]


def options_of_target(target: Target) -> str:
    """The options of scripts.stages.compile_iree for a target, with its own opt level and flags, as text for a shell."""
    words = compile_words(target, target.opt_level, target.flags)
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """A word for a shell; of `--option=value`, the value is quoted. (A recorded param has this form, and
    another one would compile everything again.)"""
    option, equals, value = word.partition("=")
    if word.startswith("--") and equals:
        return f"{option}={shlex.quote(value)}"
    return shlex.quote(word)


def _shell(options: Mapping[str, Any]) -> str:
    """Options as text for a shell; a value that is no text is JSON."""
    texts = {k: v if isinstance(v, str) else compact(v) for k, v in options.items()}
    return " ".join(f"--{k.replace('_', '-')}={shlex.quote(v)}" for k, v in texts.items())


class Options:
    """Answers the rules' questions about the command line of a stage of one cell."""

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix.every()

    def collect(self) -> str:
        """The profiles to take after the timing, as a JSON list."""
        return compact(self.matrix.measure.get("collect", []))

    def threads(self, cell: Cell | None = None) -> str:
        """`--threads N` if the configuration sets it, else nothing. The cell has the number if the configuration lists
        several."""
        number = self.matrix.measure.get("threads")
        if thread_numbers(self.matrix.measure):
            number = cell.threads if cell else None
        return f"--threads {number}" if number else ""

    def model(self, cell: Cell) -> str:
        """The options of a model's functions, as JSON."""
        return compact(self.matrix.models[cell.model].options)

    def exported(self, cell: Cell) -> str:
        """What a program computes, as options of scripts.stages.export_program: nothing for the forward pass for one size."""
        if is_dynamic(cell.frontend):
            # The sizes by which the program is found: further ones to measure are no other program.
            declared = self.matrix.models[cell.model].dynamic.items()
            sizes = {name: replace(size, values=size.probes()) for name, size in declared}
            return _shell({"dynamic": {name: asdict(size) for name, size in sizes.items()}})
        if cell.test == EVAL:
            return ""
        return f"--test {TRAIN} {self.optimizer()}"

    def optimizer(self) -> str:
        """`--optimizer <JSON>` of training steps."""
        return _shell({"optimizer": self.matrix.train})

    def exporter(self, cell: Cell) -> str:
        """The options of a frontend's exporter, as JSON."""
        return compact(self.matrix.all_frontends()[cell.frontend].options)

    def tolerance(self, cell: Cell) -> str:
        """The tolerance of a cell as JSON: the values that differ from the default."""
        return compact(self.matrix.tolerance(self.matrix.models[cell.model], str(cell)))

    def compile(self, cell: Cell) -> str:
        """The target of a model's cell, as options of scripts.stages.compile_iree."""
        return options_of_target(self.matrix.target(cell.model, cell.frontend, cell.target))

    def step(self, cell: Cell) -> str:
        """What a baseline's cell runs and how, as options of scripts.stages.verify_baseline."""
        model = self.matrix.models[cell.model]
        baseline = self.matrix.baselines[cell.baseline]
        measure = self.matrix.measure
        options = {
            "options": model.options,
            "runtime": baseline.runtime,
            "device": baseline.device,
            "test": cell.test,
            "precision": baseline.precision,
            "matmul_precision": measure.get("matmul_precision", DEFAULT_MATMUL_PRECISION),
        }
        if baseline.xla_flags:
            options["xla_flags"] = baseline.xla_flags
        if baseline.compile:
            options["compile"] = baseline.compile
        if baseline.rewrites:
            options["rewrites"] = baseline.rewrites
        if baseline.program:
            program = self.matrix.program(cell)
            options["program"] = stages.STAGES["export"].path(program, "program.mlir")
        if cell.test == TRAIN:
            options["optimizer"] = self.matrix.train
        return f"{_shell(options)} {self.threads(cell)}".rstrip()

    def dump(self, *keys: str) -> str:
        """The values that `dumps:` sets for these keys, as options of a dump script."""
        return _shell({key: self.matrix.dumps[key] for key in keys if key in self.matrix.dumps})


_OF_TOOLCHAIN = re.compile("@[^/]+")
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

    def given(self, group: Cell) -> str:
        """What is timed, as JSON for the command line of the job."""
        rows = self._rows[group]
        # A group of operator problems is of no model.
        bases = BASES_OF[self._known.models[group.model].source] if group.model else BASES
        plain = {base: name for base in bases if (name := self._plain(rows, base))}
        given = Given(
            members={str(row): _verified(row) for row in rows},
            rule=dataclasses.asdict(self.rule_of(group)),
            anchor=plain.get(bases[0], "") if bases else "",
            bases=tuple(plain.values()),
            pairs=_pairs([str(row) for row in rows]),
            forked=tuple(str(row) for row in rows if self._forked(row)),
        )
        return msgspec.json.encode(given).decode()

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


def _pairs(rows: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Each row of another toolchain with that of the pinned one, and each one for all sizes with that for this size."""
    return tuple(
        (base, row)
        for row in rows
        for base in (_OF_TOOLCHAIN.sub("", row), of_this_size(row))
        if base != row and base in rows
    )


def _verified(row: Cell, file: str = "") -> str:
    return stages.STAGES[stages.LAST[row.kind]].path(row, file)


def _rule(measure: Mapping[str, Any]) -> Rule:
    return Rule(**{key: measure[key] for key in RULE_KEYS if key in measure})
