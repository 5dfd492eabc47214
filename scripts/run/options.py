"""Command-line options of the stages that come from the configuration.

Params are functions of wildcards only: in Snakemake, a function of input or output never triggers a
re-run.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from scripts.matrix import cell, stages, threads, training
from scripts.matrix.cell import Cell, Kind
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


def _quoted(word: str) -> str:
    """A word for a shell; of `--option=value`, the value is quoted. (A recorded param has this form, and
    another one would compile everything again.)"""
    option, equals, value = word.partition("=")
    if word.startswith("--") and equals:
        return f"{option}={shlex.quote(value)}"
    return shlex.quote(word)


def for_target(target: Target) -> str:
    """The same for the target as it is, as text for a shell."""
    return " ".join(map(_quoted, compile_options(target, target.opt_level, target.flags)))


class Options:
    """Answers the rules' questions about the command line of a stage of one cell."""

    def __init__(self, matrix: Matrix) -> None:
        self._parts = matrix
        self.matrix = matrix.every()

    def collect(self) -> str:
        """The profiles to take after the timing, as a JSON list."""
        return compact(self.matrix.measure.get("collect", []))

    def threads(self, name: str = "") -> str:
        """`--threads N` if the configuration sets it, else nothing. `name`: of the target, baseline or device,
        which has the number if the configuration lists several."""
        listed = threads.numbers(self.matrix.measure)
        number = threads.of(name) if listed else self.matrix.measure.get("threads")
        return f"--threads {number}" if number else ""

    def model(self, wildcards) -> str:
        """The options of a model's functions, as JSON."""
        return compact(self.matrix.models[wildcards.model].options)

    def exported(self, wildcards) -> str:
        """What a program computes, as options of scripts.stages.export_program: nothing for the forward pass."""
        if training.test(wildcards.frontend) == training.EVAL:
            return ""
        return f"--test {training.TRAIN} {self.optimizer()}"

    def optimizer(self, wildcards=None) -> str:
        """`--optimizer <JSON>` of training steps."""
        return f"--optimizer={shlex.quote(compact(self.matrix.train))}"

    def exporter(self, wildcards) -> str:
        """The options of a frontend's exporter, as JSON."""
        return compact(self.matrix.all_frontends()[wildcards.frontend].options)

    def tolerance(self, stage: str, wildcards) -> str:
        """The tolerance of a cell of a stage as JSON: the values that differ from the default."""
        model = self.matrix.models[wildcards.model]
        name = cell.name(stages.STAGES[stage].kind, wildcards)
        return compact(self.matrix.tolerance(model, name))

    def compile(self, wildcards) -> str:
        """The target of a model's cell, as options of scripts.stages.compile_iree."""
        target = self.matrix.target(wildcards.model, wildcards.frontend, wildcards.target)
        return for_target(target)

    def step(self, wildcards) -> str:
        """What a baseline's cell runs and how, as options of scripts.stages.verify_baseline."""
        model = self.matrix.models[wildcards.model]
        baseline = self.matrix.baselines[wildcards.baseline]
        options = {
            "options": compact(model.options),
            "runtime": baseline.runtime,
            "device": baseline.device,
            "test": wildcards.test,
            "precision": self.matrix.precision(model, baseline, wildcards.test),
            "matmul-precision": self.matrix.measure.get(
                "matmul_precision", DEFAULT_MATMUL_PRECISION
            ),
        }
        if baseline.xla_flags:
            options["xla-flags"] = baseline.xla_flags
        if baseline.compile:
            options["compile"] = compact(baseline.compile)
        if baseline.rewrites:
            options["rewrites"] = baseline.rewrites
        if baseline.program:
            of = Cell.of(Kind.PROGRAM, model=model.name, frontend=baseline.program)
            options["program"] = stages.STAGES["export"].path(of, "program.mlir")
        if wildcards.test == "train":
            options["optimizer"] = compact(self.matrix.train)
        shown = " ".join(f"--{key}={shlex.quote(value)}" for key, value in options.items())
        return f"{shown} {self.threads(baseline.name)}".rstrip()

    def dump(self, *keys: str) -> str:
        """The values that `dumps:` sets for these keys, as options of a dump script."""
        found = {key: self.matrix.dumps[key] for key in keys if key in self.matrix.dumps}
        shown = {k: compact(v) if isinstance(v, list) else str(v) for k, v in found.items()}
        return " ".join(f"--{k.replace('_', '-')}={shlex.quote(v)}" for k, v in shown.items())
