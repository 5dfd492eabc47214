"""The rules' view of the matrix: environments, params and limits of every stage of a cell.

Params are functions of wildcards only: in Snakemake, a function of input or output never triggers a
re-run.
"""

from __future__ import annotations

import functools
import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from scripts.core import checkout
from scripts.matrix import cell, feature, plugins, reading, stages, threads, training
from scripts.matrix.cell import Cell, Kind
from scripts.matrix.entries import Baseline, Frontend, Model, Target
from scripts.matrix.matrix import Matrix
from scripts.matrix.stage import IREE_ENV, OUTCOMES, Stage
from scripts.run import environments, fingerprint, recorded, resources
from scripts.run.aggregation import Aggregation
from scripts.run.groups import Groups
from scripts.run.makers import Maker
from scripts.run.options import Options
from scripts.supervise import group, outcome, outcomes
from scripts.supervise.outcome import Outcome
from scripts.torch_model import source

PLOTS = ("svg", "png")
"""The formats of plots."""


def parse_retry(wanted: str | None) -> frozenset[str]:
    """The statuses named by `--config retry=timeout,oom` (or `all`, or `stale`)."""
    known = ("all", fingerprint.STALE, *outcome.STATUSES)
    return frozenset(reading.select("retry status", known, wanted)) if wanted else frozenset()


@functools.cache
def _parts(file: str) -> tuple[list[str], str]:
    """The files that a model file imports, and an error message if one of them cannot be used. They are
    read once for all cells of the model."""
    try:
        found = source.own_imports(file)
        return [os.path.relpath(path) if checkout.is_here() else str(path) for path in found], ""
    except source.BrokenModelFile as error:
        return [], str(error)


def _size_mb(file: str) -> float | None:
    """Size of a file in MiB; None if it does not exist yet, or is the empty file of a failed stage."""
    path = Path(file)
    return path.stat().st_size / 2**20 or None if path.is_file() else None


def _forkable(entry: Frontend | Baseline | None) -> bool:
    """Whether the exporter or runtime of an entry may run in a forked process."""
    match entry:
        case Frontend(exporter=name):
            return plugins.exporter(name).forkable
        case Baseline(runtime=name, xla_flags=flags):  # which XLA reads when it is imported
            return not flags and plugins.runtime(name).forkable
    return True


class Plan:
    """Answers the rules' questions about cells of the matrix.

    Stages have the names of matrix/stages.py.
    """

    def __init__(self, matrix: Matrix, retry: frozenset[str], with_conda: bool) -> None:
        # Entries are looked up by name in the union of models and kernels. Rows are those of the parts.
        self.matrix = matrix.every()
        self.configured = matrix
        self.environments = environments.of_run(matrix.toolchains)
        self._has_toolchains = any(one.env != IREE_ENV for one in matrix.targets.values())
        self.retry = retry
        self.with_conda = with_conda
        self.options = Options(matrix)
        loaded = feature.LOADED.values()
        self.maker: Maker = next((one.maker(self) for one in loaded if one.maker), Maker())
        groups = {group: rows for own in matrix.matrices for group, rows in own.groups().items()}
        self.groups = Groups(matrix, groups, self.row_forked)
        self.aggregation = Aggregation(matrix, self.maker)
        self._memory_mb = {
            key: resources.memory_limit_mb(limit) for key, limit in matrix.limits.items()
        }
        self._of_features = {one.name: one.plan(self) for one in loaded if one.plan}

    def __getitem__(self, name: str) -> Any:
        """What a feature answers the questions of its rules with."""
        return self._of_features[name]

    def model(self, wildcards) -> Model:
        return self.matrix.models[wildcards.model]

    def model_parts(self, wildcards) -> list[str]:
        """The project and helper files that the model's file imports; a change of one counts as a change of it."""
        return _parts(self.model(wildcards).file)[0]

    def broken_models(self) -> list[str]:
        """Error messages about model files that cannot be used, each once. Their references fail with them."""
        found = (model.broken or _parts(model.file)[1] for model in self.matrix.models.values())
        return list(dict.fromkeys(filter(None, found)))

    def frontend(self, wildcards) -> Frontend:
        return self.matrix.all_frontends()[wildcards.frontend]

    def target(self, wildcards) -> Target:
        return self.matrix.target(wildcards.model, wildcards.frontend, wildcards.target)

    def baseline(self, wildcards) -> Baseline:
        return self.matrix.all_baselines()[wildcards.baseline]

    def on_device(self, wildcards) -> Target | Baseline:
        """The first entry that runs on a device, which names the node that has it."""
        found = self.matrix.devices()
        return found.get(wildcards.device) or found[threads.shared(wildcards.device)]

    def cpus(self) -> list[str]:
        """The names of the CPU as a device: one for each number of threads."""
        listed = threads.numbers(self.matrix.measure)
        return [threads.named("cpu", number) for number in listed or (None,)]

    def env(self, stage: str, wildcards) -> str:
        """The environment in which a stage of a cell runs."""
        declared = stages.STAGES[stage]
        if entry := self._entry(declared, wildcards):
            return entry.env
        if not self.has_one_env(stage):
            return self.matrix.target_of(wildcards.target).env
        return declared.env or self.matrix.reference_env

    def has_one_env(self, stage: str) -> bool:
        """Whether all cells of a stage have the same environment."""
        declared = stages.STAGES[stage]
        of_target = declared.env and declared.kind in (Kind.MODULE, Kind.IREE, Kind.IREE_DUMP)
        return not declared.entry and not (of_target and self._has_toolchains)

    def python(self, stage: str, wildcards) -> str:
        """The interpreter of that environment."""
        return environments.python(self.env(stage, wildcards), self.with_conda)

    def pins(self, stage: str, wildcards) -> str:
        """A value that changes when the pins of the environment change."""
        return self.environments.pins_digest(self.env(stage, wildcards))

    def report_python(self) -> str:
        """The interpreter of the aggregation: the driver's own, unless conda makes one."""
        return "python" if self.with_conda else shlex.quote(sys.executable)

    def env_status(self, stage: str, wildcards) -> list[str]:
        """The status file of the environment, as an input. Empty under conda, which makes its own."""
        if self.with_conda:
            return []
        return [stages.status_path("env", self.env(stage, wildcards))]

    def env_is_of_pins(self, stage: str, wildcards) -> bool:
        """Whether the environment was made from its current pins. conda takes care of that itself."""
        return self.with_conda or self.environments.is_of_pins(self.env(stage, wildcards))

    def env_packages(self, stage: str, wildcards) -> list[str]:
        """The file that lists an environment's packages. It is deleted together with the environment."""
        if self.with_conda:
            return []
        return [environments.packages_file(self.env(stage, wildcards))]

    def forked(self, stage: str, wildcards) -> bool:
        """Whether the process of a stage of a cell may be forked from one that has imported the
        packages of its environment (the fork server)."""
        declared = stages.STAGES[stage]
        return declared.forked and _forkable(self._entry(declared, wildcards))

    def row_forked(self, row: Cell) -> bool:
        """Whether the process that times a row may be forked."""
        return self.forked(stages.LAST[row.kind], SimpleNamespace(**row.by_axis()))

    def forked_alike(self, stage: str) -> bool | None:
        """`forked` for all cells of a stage; None if they differ."""
        declared = stages.STAGES[stage]
        entries: dict[str, Iterable[Frontend | Baseline | None]] = {
            "frontend": self.matrix.entries("frontend").values(),
            "baseline": self.matrix.entries("baseline").values(),
            "": [None],
        }
        found = {declared.forked and _forkable(entry) for entry in entries[declared.entry]}
        return found.pop() if len(found) == 1 else None

    def ended_well(self, stage: str, wildcards) -> bool:
        """Whether a stage of a cell is recorded as ok."""
        try:
            found = recorded.outcome_of(self._status(stages.STAGES[stage], wildcards))
        except ValueError:
            return False
        return found is not None and found.outcome.status == outcome.OK

    def due(self, stage: str, wildcards) -> str:
        """See fingerprint.due."""
        declared = stages.STAGES[stage]
        retry = self.retry
        if declared.kind is Kind.ENV:  # what kept it from being made may be gone; not for "all"
            retry = frozenset(outcome.FAILED)
            if self.environments.is_gone(wildcards.env):
                retry |= {"all"}
        elif not declared.measures:  # no part of a row's measuring code
            retry -= {fingerprint.STALE}
        modules = stages.modules(declared, self._entry(declared, wildcards))
        if declared.remedies:
            code = fingerprint.code_of_stage(modules)
            return self.maker.due(wildcards, code, retry, self._met_limits(stage))
        return fingerprint.due(
            self._status(declared, wildcards),
            fingerprint.of_stage(declared.folder, modules),
            retry,
            self._met_limits(stage),
            self._problems(declared, wildcards),
        )

    def _problems(self, stage: Stage, wildcards) -> list[Outcome]:
        """The outcomes of the problems of a batch, or of the members of a group; empty for other stages."""
        if stage.kind is Kind.GROUP:
            return group.outcomes(Path(stage.path(cell.name(stage.kind, wildcards))))
        if not stage.is_batch:
            return []
        path = stage.path(cell.name(stage.kind, wildcards), OUTCOMES)
        return [line.outcome for line in outcomes.read_if_whole(path).values()]

    def _status(self, stage: Stage, wildcards) -> str:
        return stages.status_path(stage.folder, cell.name(stage.kind, wildcards))

    def _entry(self, stage: Stage, wildcards) -> Frontend | Baseline | None:
        """The configuration's entry that names the environment and modules of a stage."""
        if not stage.entry:
            return None
        return self.matrix.entry(stage.entry, getattr(wildcards, stage.entry))

    def limit(self, stage: str) -> dict[str, float]:
        """The entry of `limits` that a stage runs under."""
        return self.matrix.limits[stages.STAGES[stage].limits_key]

    def timeout_s(self, stage: str) -> float:
        return self.limit(stage)["timeout_s"]

    def memory_mb(self, stage: str) -> int:
        """What a stage may use on this machine."""
        return self._memory_mb[stages.STAGES[stage].limits_key]

    def _met_limits(self, stage: str) -> dict[str, float]:
        """The limits of a stage, by the status that exceeding them gives. A memory limit that is not set is
        left out: it is a share of the machine's memory, and the machine may have been another one."""
        limit = self.limit(stage)
        return {"timeout": limit["timeout_s"]} | (
            {"oom": limit["memory_mb"]} if "memory_mb" in limit else {}
        )

    def within_limits(self, stage: str) -> resources.Ask:
        """The resources that a stage may use on this machine, for any model."""
        return resources.within_limits(self.memory_mb(stage), self.timeout_s(stage))

    def ask(self, stage: str, wildcards, attempt: int, submitted: bool) -> resources.Ask:
        """The resources of a stage of a cell, on this machine or for a submission to a cluster."""
        if not submitted:
            return self.within_limits(stage)
        limit = self.limit(stage)
        declared = stages.STAGES[stage]
        need = declared.need
        if need is None:
            raise ValueError(
                f"stage {stage} is never submitted: matrix/stages.py has no need of it"
            )
        if declared.is_batch:
            return resources.of_batch(need, limit, attempt)
        model = getattr(wildcards, "model", "")  # a stage of a device has none
        weights = stages.STAGES["reference"].path(model, "weights.irpa")
        turns_s = self.groups.rule(model).most_s
        before_s = self.maker.search_s if declared.kind is Kind.TUNING else 0.0
        step = training.is_of_stage(stage, wildcards)
        return resources.of(need, limit, _size_mb(weights), attempt, turns_s, before_s, step)

    def node(self, entry: Target | Baseline) -> dict[str, int | str]:
        """The resources that request the node of a target or baseline, with the names of Snakemake's executors."""
        return self.matrix.nodes.get(entry.node, {})

    def skip(self, stage: str, wildcards) -> str:
        """`--skip <why>` for a stage that must not run according to a TorchBench file.

        It does not depend on what is selected, because running a part of the matrix must not
        invalidate results of the whole.
        """
        declared = stages.STAGES[stage]
        match declared.skipped:
            case "cell":
                kind = Kind.BASELINE if declared.kind is Kind.BASELINE else Kind.IREE
                reason = self.matrix.override(cell.name(kind, wildcards)).skip
            case "model":
                reason = self.model(wildcards).skip
            case "training":
                reason = self.model(wildcards).skip_train
            case _:
                reason = ""
        return f"--skip {shlex.quote(reason)}" if reason else ""

    def golden(self, wildcards, file: str) -> str:
        """A file of the stage with the golden results of a baseline's test."""
        return stages.STAGES[training.REFERENCES[wildcards.test]].path(wildcards.model, file)

    def reference(self, wildcards, file: str) -> str:
        """A file of the stage that makes what the program of a frontend starts from and is compared with."""
        stage = training.REFERENCES[training.test(wildcards.frontend)]
        return stages.STAGES[stage].path(wildcards.model, file)

    def module(self, wildcards, file: str) -> str:
        """A file of the compilation of an IREE cell."""
        row = Cell.of(
            Kind.IREE,
            model=wildcards.model,
            frontend=wildcards.frontend,
            target=wildcards.target,
        )
        return stages.STAGES["compile"].path(row.to(Kind.MODULE), file)

    def program(self, wildcards, file: str) -> list[str]:
        """A file of the export whose program a baseline runs. Empty if it runs the model itself."""
        row = Cell.of(
            Kind.BASELINE, model=wildcards.model, baseline=wildcards.baseline, test=wildcards.test
        )
        if not self.matrix.runs_program(row):
            return []
        return [stages.STAGES["export"].path(self.matrix.program(row), file)]
