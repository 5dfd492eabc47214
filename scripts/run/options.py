"""Command-line options of the stages that come from the configuration.

Params are functions of wildcards only: in Snakemake, a function of input or output never triggers a
re-run.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from scripts.matrix import stages, threads, training
from scripts.matrix.cell import Cell, is_dynamic
from scripts.matrix.entries import Target
from scripts.matrix.matrix import Matrix, compact
from scripts.matrix.precision import DEFAULT_MATMUL_PRECISION
from scripts.matrix.toolchains import PINNED


def compile_options(target: Target, opt_level: str, flags: Sequence[str]) -> list[str]:
    """The options of scripts.stages.compile_iree for a target, with this opt level and these flags."""
    return [
        *("--backend", target.backend, f"--arch={target.arch}"),
        *("--opt-level", opt_level, "--flags", compact(flags)),
        *(("--toolchain", target.toolchain) if target.toolchain != PINNED else ()),
    ]


def for_target(target: Target) -> str:
    """The same for the target as it is, as text for a shell."""
    words = compile_options(target, target.opt_level, target.flags)
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
        if threads.numbers(self.matrix.measure):
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
            sizes = {name: replace(one, values=one.probes()) for name, one in declared}
            return _shell({"dynamic": {name: asdict(one) for name, one in sizes.items()}})
        if cell.test == training.EVAL:
            return ""
        return f"--test {training.TRAIN} {self.optimizer()}"

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
        return for_target(self.matrix.target(cell.model, cell.frontend, cell.target))

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
            "precision": self.matrix.precision(model, baseline, cell.test),
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
        if cell.test == training.TRAIN:
            options["optimizer"] = self.matrix.train
        return f"{_shell(options)} {self.threads(cell)}".rstrip()

    def dump(self, *keys: str) -> str:
        """The values that `dumps:` sets for these keys, as options of a dump script."""
        return _shell({key: self.matrix.dumps[key] for key in keys if key in self.matrix.dumps})
