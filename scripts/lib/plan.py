"""Paths, params and fingerprints of every stage: what the rules read the matrix through.

Params are functions of wildcards only; functions of input or output never trigger a re-run.
"""

from __future__ import annotations

import hashlib
import shlex
import sys
from pathlib import Path

from scripts.lib import environments, fingerprint, limits, outcome, settings
from scripts.lib.matrix import Baseline, Frontend, Matrix, Model, Target, compact

IREE_ENV = "iree"

# Stage: what its status file is called under results/<stage>/, and the scripts that make it.
SCRIPTS = {
    "env": ("scripts.make_env",),
    "reference": ("scripts.make_reference",),
    "export": ("scripts.export_program",),
    "compile": ("scripts.compile_iree",),
    "measure": ("scripts.measure_iree",),
    "baseline": ("scripts.measure_baseline",),
}


def status_path(stage: str, cell: str) -> str:
    """Where the outcome of a stage of a cell is recorded."""
    return f"results/{stage}/{cell}/status.json"


def parse_retry(wanted: str | None) -> frozenset[str]:
    """The statuses of `--config retry=timeout,oom` (or `all`)."""
    known = ("all", *outcome.STATUSES)
    return frozenset(settings.select("retry status", known, wanted)) if wanted else frozenset()


class Plan:
    """Answers the rules' questions about one cell of the matrix at a time."""

    def __init__(self, matrix: Matrix, retry: frozenset[str], with_conda: bool) -> None:
        self.matrix = matrix
        self.retry = retry
        self.with_conda = with_conda
        self._memory_mb = {s: limits.memory_mb(limit) for s, limit in matrix.limits.items()}

    def model(self, wildcards) -> Model:
        return self.matrix.models[wildcards.model]

    def frontend(self, wildcards) -> Frontend:
        return self.matrix.frontends[wildcards.frontend]

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
            {"timeout": self.timeout_s(stage), "oom": self.memory_mb(stage)},
        )

    def modules(self, stage: str, *more: str) -> tuple[str, ...]:
        """The modules whose code a stage is made of."""
        return (*SCRIPTS[stage], *more)

    def timeout_s(self, stage: str) -> float:
        return self.matrix.limits[stage]["timeout_s"]

    def memory_mb(self, stage: str) -> int:
        return self._memory_mb[stage]

    def rule(self) -> str:
        """The stopping rule as JSON, `threads` left out."""
        return compact({k: v for k, v in self.matrix.measure.items() if k != "threads"})

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
        for model, baseline in self.matrix.baseline_cells():
            cell = f"results/baseline/{model.name}/{baseline.name}"
            found += [f"{cell}/status.json", f"{cell}/measurement.json"]
        return list(dict.fromkeys(found))

    def digest(self) -> str:
        """Changes with anything that the aggregate reads from the matrix."""
        text = compact(self.matrix.to_json())
        return hashlib.sha256(text.encode()).hexdigest()[:12]
