"""Paths, params and fingerprints of every stage: what the rules read the matrix through.

Params are functions of wildcards only; functions of input or output never trigger a re-run.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import shlex
import sys
from pathlib import Path

from scripts.lib.config import settings
from scripts.lib.config.matrix import (
    Baseline,
    Frontend,
    Matrix,
    Model,
    Target,
    baseline_cell,
    compact,
)
from scripts.lib.driver import environments, fingerprint, limits, resources
from scripts.lib.modeling import source
from scripts.lib.supervision import outcome
from scripts.lib.timing.stopping import StoppingRule

IREE_ENV = "iree"

# Stage: what its status file is called under results/<stage>/, and the scripts that make it.
SCRIPTS = {
    "env": ("scripts.make_env",),
    "reference": ("scripts.make_reference",),
    "export": ("scripts.export_program",),
    "compile": ("scripts.compile_iree",),
    "measure": ("scripts.measure_iree",),
    "gradients": ("scripts.make_gradients",),
    "baseline": ("scripts.measure_baseline",),
    "dumps": (),  # dump_baseline or dump_iree: the rule says which
}


IREE_DUMPS = ("iree_phases", "iree_graph")
"""The kinds of dump that are of IREE's cells; the others are of baselines."""

LIMITS_OF = {"gradients": "reference", "dumps": "baseline"}
"""Stages that run as another one does, and under its limits."""

RULE_KEYS = tuple(field.name for field in dataclasses.fields(StoppingRule))


def status_path(stage: str, cell: str) -> str:
    """Where the outcome of a stage of a cell is recorded."""
    return f"results/{stage}/{cell}/status.json"


def parse_retry(wanted: str | None) -> frozenset[str]:
    """The statuses of `--config retry=timeout,oom` (or `all`)."""
    known = ("all", *outcome.STATUSES)
    return frozenset(settings.select("retry status", known, wanted)) if wanted else frozenset()


@functools.cache
def _parts(file: str) -> list[str]:
    """One reading of a model file for all of its cells."""
    return [os.path.relpath(path) for path in source.own_imports(file)]


def _size_mb(file: str) -> float | None:
    """MiB of a file; None where there is none yet, or the empty one of a stage that failed."""
    path = Path(file)
    return path.stat().st_size / 2**20 or None if path.is_file() else None


class Plan:
    """Answers the rules' questions about one cell of the matrix at a time."""

    def __init__(self, matrix: Matrix, retry: frozenset[str], with_conda: bool) -> None:
        self.matrix = matrix
        self.retry = retry
        self.with_conda = with_conda
        self._memory_mb = {s: limits.memory_mb(limit) for s, limit in matrix.limits.items()}

    def model(self, wildcards) -> Model:
        return self.matrix.models[wildcards.model]

    def model_parts(self, wildcards) -> list[str]:
        """The files that the model's own file is made of: a change of theirs is one of it."""
        return _parts(self.model(wildcards).file)

    def frontend(self, wildcards) -> Frontend:
        return (self.matrix.programs | self.matrix.frontends)[wildcards.frontend]

    def target(self, wildcards) -> Target:
        return self.matrix.targets[wildcards.target]

    def baseline(self, wildcards) -> Baseline:
        return self.matrix.baselines[wildcards.baseline]

    def reference_env(self) -> str:
        """The environment that makes references, whatever frontends are selected."""
        return self.matrix.reference_env

    def python(self, env: str) -> str:
        return environments.python(env, self.with_conda)

    def report_python(self) -> str:
        """The interpreter that aggregates: the driver's own, unless conda makes one."""
        return "python" if self.with_conda else shlex.quote(sys.executable)

    def pins(self, env: str) -> str:
        return environments.pins_digest(env)

    def env_status(self, env: str) -> list[str]:
        """The environment's status as an input; none under conda, which makes its own."""
        return [] if self.with_conda else [status_path("env", env)]

    def env_packages(self, env: str) -> list[str]:
        """The list of an environment's packages, which is gone when the environment is."""
        return [] if self.with_conda else [f"{environments.prefix(env)}/versions.json"]

    def ended_well(self, stage: str, cell: str) -> bool:
        """Whether a cell's stage is recorded as ok."""
        path = Path(status_path(stage, cell))
        try:
            return path.is_file() and outcome.read(path).status == outcome.OK
        except ValueError:
            return False

    def due(self, stage: str, cell: str, *more: str) -> str:
        """See fingerprint.due; `more` are further modules (an exporter, a runtime)."""
        retry = self.retry
        if stage == "env":  # whatever kept it from being made may be gone; never made for "all"
            retry = frozenset(outcome.FAILED)
        return fingerprint.due(
            status_path(stage, cell),
            fingerprint.of_stage(stage, self.modules(stage, *more)),
            retry,
            self._met_limits(stage),
        )

    def modules(self, stage: str, *more: str) -> tuple[str, ...]:
        """The modules whose code a stage is made of."""
        return (*SCRIPTS[stage], *more)

    def limit(self, stage: str) -> dict[str, float]:
        """The entry of `limits` that a stage runs under."""
        return self.matrix.limits[LIMITS_OF.get(stage, stage)]

    def timeout_s(self, stage: str) -> float:
        return self.limit(stage)["timeout_s"]

    def memory_mb(self, stage: str) -> int:
        """What a stage may use on this machine."""
        return self._memory_mb[LIMITS_OF.get(stage, stage)]

    def _met_limits(self, stage: str) -> dict[str, float]:
        """Limits by the status of a stage that met them. A memory limit that is not set is a share
        of whatever machine the stage ran on, and says nothing."""
        limit = self.limit(stage)
        return {"timeout": limit["timeout_s"]} | (
            {"oom": limit["memory_mb"]} if "memory_mb" in limit else {}
        )

    def ask(self, stage: str, model: str, attempt: int, submitted: bool) -> resources.Ask:
        """What a stage of a model may use, on this machine or where it is submitted to."""
        limit = self.limit(stage)
        if not submitted:
            return resources.within_limits(self.memory_mb(stage), limit["timeout_s"])
        budget_s = self.matrix.measure.get("budget_s", StoppingRule.budget_s)
        return resources.of(
            stage,
            limit,
            _size_mb(f"results/reference/{model}/weights.irpa"),
            attempt,
            budget_s if stage in ("measure", "baseline") else 0.0,
        )

    def node(self, entry: Target | Baseline) -> dict[str, int | str]:
        """What its kind of node is asked for by, as Snakemake's executors call it."""
        return self.matrix.nodes.get(entry.node, {})

    def rule(self) -> str:
        """The stopping rule as JSON: what `measure:` sets of it."""
        return compact({k: v for k, v in self.matrix.measure.items() if k in RULE_KEYS})

    def collect(self) -> str:
        """The profiles to take after the timing, as a JSON list."""
        return compact(self.matrix.measure.get("collect", []))

    def step(self, wildcards) -> str:
        """What a baseline's cell runs and how, as options of scripts.measure_baseline."""
        model, baseline = self.model(wildcards), self.baseline(wildcards)
        options = {
            "options": compact(model.options),
            "runtime": baseline.runtime,
            "device": baseline.device,
            "test": wildcards.test,
            "precision": self.matrix.precision(model, baseline, wildcards.test),
            "matmul-precision": self.matrix.measure.get("matmul_precision", "highest"),
        }
        if baseline.xla_flags:
            options["xla-flags"] = baseline.xla_flags
        for program in self.program(wildcards, "program.mlir"):
            options["program"] = program
        if wildcards.test == "train":
            options["optimizer"] = compact(self.matrix.train)
        shown = " ".join(f"--{key}={shlex.quote(value)}" for key, value in options.items())
        return f"{shown} {self.threads()}".rstrip()

    def program(self, wildcards, artifact: str) -> list[str]:
        """An artifact of the export whose program a baseline runs; none where it runs the model."""
        exported = self.baseline(wildcards).program
        return [f"results/export/{wildcards.model}/{exported}/{artifact}"] if exported else []

    def tolerance(self, wildcards, cell: str) -> str:
        """What differs from the default tolerance for a cell, as JSON."""
        return compact(self.matrix.tolerance(self.model(wildcards), cell))

    def skip(self, cell: str) -> str:
        """`--skip <why>` for a cell that a TorchBench file says is not to be run."""
        reason = self.matrix.override(cell).skip
        return f"--skip {shlex.quote(reason)}" if reason else ""

    def skip_model(self, wildcards, test: str = "eval") -> str:
        """The same for a model of which nothing is to be run, or that is not to be trained.

        Whatever is selected: a part of the matrix must not undo what the whole has made.
        """
        model = self.model(wildcards)
        reason = model.skip if test == "eval" else model.skip_train
        return f"--skip {shlex.quote(reason)}" if reason else ""

    def golden(self, wildcards, artifact: str) -> str:
        """An artifact of the stage that a baseline's test is held to."""
        stage = {"eval": "reference", "train": "gradients"}[wildcards.test]
        return f"results/{stage}/{wildcards.model}/{artifact}"

    def threads(self) -> str:
        """`--threads N` where the configuration sets it."""
        threads = self.matrix.measure.get("threads")
        return f"--threads {threads}" if threads else ""

    def results(self) -> list[str]:
        """Every file that the aggregate is made of."""
        found = []
        for model, frontend, target in self.matrix.cells():
            cell = f"results/measure/{model.name}/{frontend.name}/{target.name}"
            found += [f"{cell}/status.json", f"{cell}/measurement.json"]
            exported = f"{model.name}/{frontend.name}"
            found.append(f"results/compile/{exported}/{target.name}/report.json")
            found.append(f"results/export/{exported}/report.json")
        for model, baseline, test in self.matrix.baseline_cells():
            cell = f"results/baseline/{baseline_cell(model.name, baseline.name, test)}"
            found += [f"{cell}/status.json", f"{cell}/measurement.json"]
            if baseline.program:
                found.append(f"results/export/{model.name}/{baseline.program}/report.json")
        return list(dict.fromkeys(found))

    def dumps(self) -> list[str]:
        """The lists of what was dumped, of every cell that a kind of dump is of."""
        kinds = set(self.matrix.dumps.get("kinds", (*IREE_DUMPS, "profile")))
        cells: list[str] = []
        if kinds & set(IREE_DUMPS):
            cells += [f"{m.name}/iree/{f.name}/{t.name}" for m, f, t in self.matrix.cells()]
        if kinds - set(IREE_DUMPS):
            cells += [baseline_cell(m.name, b.name, t) for m, b, t in self.matrix.baseline_cells()]
        return [f"results/dumps/{cell}/files.json" for cell in cells]

    def dump_cell(self, wildcards) -> str:
        """The name of a cell's dumps: `<model>/<runtime>`."""
        if hasattr(wildcards, "baseline"):
            return baseline_cell(wildcards.model, wildcards.baseline, wildcards.test)
        return f"{wildcards.model}/iree/{wildcards.frontend}/{wildcards.target}"

    def dump_options(self, *keys: str) -> str:
        """What `dumps:` sets of these keys, as options of a dump script."""
        found = {key: self.matrix.dumps[key] for key in keys if key in self.matrix.dumps}
        shown = {k: compact(v) if isinstance(v, list) else str(v) for k, v in found.items()}
        return " ".join(f"--{k.replace('_', '-')}={shlex.quote(v)}" for k, v in shown.items())

    def compile_options(self, wildcards) -> str:
        """A target as options of scripts.compile_iree."""
        target = self.target(wildcards)
        return (
            f"--backend {target.backend} --arch={shlex.quote(target.arch)}"
            f" --opt-level {target.opt_level} --flags {shlex.quote(compact(target.flags))}"
        )

    def digest(self) -> str:
        """Changes with anything that the aggregate reads from the matrix."""
        text = compact(self.matrix.to_json())
        return hashlib.sha256(text.encode()).hexdigest()[:12]
