"""The rules' view of the matrix: environments, params and limits of every stage of a cell.

Params are functions of wildcards only: in Snakemake, a function of input or output never triggers a
re-run.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scripts.config import feature, plugins, reading, stages
from scripts.config.cell import REFERENCES, TRAIN, Cell, EntryName, Kind, thread_numbers
from scripts.config.entries import Baseline, Frontend, Model, Target
from scripts.config.rows import Matrix, compact
from scripts.config.stages import IREE_ENV, OUTCOMES, REPORT, STAGES, STATUS, Stage
from scripts.core import checkout
from scripts.frontends.sources.registry import source_of
from scripts.frontends.torch_model.errors import BrokenModelFile
from scripts.measure.timing import machine_limits
from scripts.run import environments, fingerprint, resources
from scripts.run.modules import REMEDY, Modules
from scripts.run.params import Groups, Requests
from scripts.supervise import group, outcome
from scripts.supervise.outcome import Outcome


class Aggregation:
    """Answers the questions of a rule that aggregates the rows of a matrix."""

    def __init__(self, matrix: Matrix, modules: Modules) -> None:
        self.matrix, self._modules = matrix, modules

    def results(self) -> list[str]:
        """Every file that the aggregation reads: those of the rows, and the limits of their devices."""
        return [
            *self.of_rows(self.matrix.rows()),
            *self.machine_limits(self.matrix.limited_devices()),
        ]

    def has_cpu_first(self) -> bool:
        """Whether a run on one machine has rows on the CPU and on other devices, so that those on the CPU are made, written
        and shown first."""
        on_cpu = sum(1 for _ in self.matrix.on_cpu().rows())
        return 0 < on_cpu < sum(1 for _ in self.matrix.rows())

    def machine_limits(self, devices: Iterable[str]) -> list[str]:
        """The files with the limits of these devices (measure/timing/machine_limits.py); none without the feature that makes
        them."""
        stage = STAGES.get("machine_limits")
        return [stage.path(device, machine_limits.FILE) for device in devices] if stage else []

    def of_rows(self, rows: Iterable[Cell], timed_by: str = "time") -> list[str]:
        """Every file that the aggregation reads from the stages of rows: of their chains, of their groups (which the
        stage `timed_by` times), and of remedies that take part."""
        files: dict[str, None] = {}
        for row in rows:
            chain = [*self.matrix.chain(row), self.matrix.timed(row, timed_by)]
            if row.kind is Kind.IREE and self._modules.uses_remedies(row):
                chain.append((REMEDY, row.to(Kind.MODULE)))
            for stage, cell in reversed(chain):
                files |= dict.fromkeys(stage.path(cell, file) for file in stage.aggregated)
        return list(files)

    @staticmethod
    def measuring_code() -> str:
        """The versions of the code that measures and verifies rows. When they change, other rows are stale."""
        measuring = (s for s in STAGES.values() if s.measures and not s.is_batch)
        return " ".join(f"{stage.name}-{stage.version}" for stage in measuring)

    def digest(self, on_cpu: bool = False) -> str:
        """A hash of everything that the aggregation reads from the matrix, or from that of the rows on the CPU."""
        matrix = self.matrix.on_cpu() if on_cpu else dataclasses.replace(self.matrix, parts={})
        return digest_of(matrix.to_json())


def digest_of(values: Any) -> str:
    """A hash of plain values."""
    return hashlib.sha256(compact(values).encode()).hexdigest()[:12]


def parse_retry(wanted: str | None) -> frozenset[str]:
    """The statuses named by `--config retry=timeout,oom` (or `all`, or `stale`)."""
    known = ("all", fingerprint.STALE, *outcome.STATUSES)
    return frozenset(reading.select("retry status", known, wanted)) if wanted else frozenset()


@functools.cache
def _parts(file: str, paths: str) -> tuple[list[str], str]:
    """The further files that a model is made of, and an error message if one of them cannot be used. They are
    found once for all cells of the model. `paths`: its options that are paths, as JSON."""
    try:
        parts = source_of(file).parts(Path(file), json.loads(paths))
        return [os.path.relpath(path) if checkout.is_here() else str(path) for path in parts], ""
    except BrokenModelFile as error:
        return [], str(error)


def parts_of(model: Model) -> tuple[list[str], str]:
    """The further files that a model is made of, and an error message if one of them cannot be used."""
    names = source_of(model.file).path_options
    return _parts(model.file, compact({n: model.options[n] for n in names if n in model.options}))


def _size_mb(file: str) -> float | None:
    """Size of a file in MiB; None if it does not exist yet, or is the empty file of a failed stage."""
    path = Path(file)
    return path.stat().st_size / 2**20 or None if path.is_file() else None


def _is_untrusted(model: Model) -> bool:
    return not source_of(model.file).is_code and not model.options.get("trust")


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

    Stages have the names of config/stages.py.
    """

    def __init__(self, matrix: Matrix, retry: frozenset[str], with_conda: bool) -> None:
        # Entries are looked up by name in the union of models and kernels. Rows are those of the parts.
        self.matrix = matrix.every()
        self.configured = matrix
        self._frontends = self.matrix.all_frontends()
        self._baselines = self.matrix.all_baselines()
        self.environments = environments.of_run(matrix.toolchains)
        self._has_toolchains = any(target.env != IREE_ENV for target in matrix.targets.values())
        self.retry = retry
        self.with_conda = with_conda
        self.requests = Requests(matrix)
        self.modules = Modules(self.matrix, self.environments)
        groups = {group: rows for own in matrix.matrices for group, rows in own.groups().items()}
        self.groups = Groups(matrix, groups, self.row_forked)
        self.aggregation = Aggregation(matrix, self.modules)
        self._memory_mb = {
            key: resources.memory_limit_mb(limit) for key, limit in matrix.limits.items()
        }
        self._of_features = {
            loaded.name: loaded.plan(self) for loaded in feature.LOADED.values() if loaded.plan
        }

    def __getitem__(self, name: str) -> Any:
        """What a feature answers the questions of its rules with."""
        return self._of_features[name]

    def model(self, cell: Cell) -> Model:
        return self.matrix.models[cell.model]

    @functools.cached_property
    def any_untrusted(self) -> bool:
        return any(map(_is_untrusted, self.matrix.models.values()))

    def is_untrusted(self, cell: Cell) -> bool:
        """Whether a cell is of a model whose file must not run code."""
        model = self.matrix.models.get(cell.model)
        return model is not None and _is_untrusted(model)

    def model_parts(self, cell: Cell) -> list[str]:
        """The further files that a model is made of; a change of one counts as a change of its file."""
        return parts_of(self.model(cell))[0]

    def broken_models(self) -> list[str]:
        """Error messages about model files that cannot be used, each once. Their references fail with them."""
        problems = (model.broken or parts_of(model)[1] for model in self.matrix.models.values())
        return list(dict.fromkeys(filter(None, problems)))

    def frontend(self, cell: Cell) -> Frontend:
        return self._frontends[cell.frontend]

    def target(self, cell: Cell) -> Target:
        return self.matrix.target(cell.model, cell.frontend, cell.target)

    def baseline(self, cell: Cell) -> Baseline:
        return self._baselines[cell.baseline]

    def on_device(self, cell: Cell) -> Target | Baseline:
        """The first entry that runs on a device, which names the node that has it."""
        devices = self.matrix.devices()
        return devices.get(cell.device) or devices[cell.names["device"].entry]

    def cpus(self) -> list[str]:
        """The names of the CPU as a device: one for each number of threads."""
        listed = thread_numbers(self.matrix.measure)
        return [str(EntryName("cpu", threads=number)) for number in listed or (None,)]

    def is_after_cpu(self, rule: str, wildcards: Mapping[str, str]) -> bool:
        """Whether a job is of a row on another device than the CPU, or of what a device can do at most, for which the table
        of the CPU need not wait."""
        limits = STAGES.get("machine_limits")
        if limits and rule == limits.rule:
            return True
        if target := wildcards.get("target"):
            return not self.matrix.target_of(target).on_cpu
        if baseline := wildcards.get("baseline"):
            return not self._baselines[baseline].on_cpu
        return not wildcards.get("device", "cpu").startswith("cpu")

    def one_env(self, stage: str) -> str | None:
        """The environment of all cells of a stage; None if cells may have different ones."""
        declared = STAGES[stage]
        of_target = declared.env and declared.kind in (Kind.MODULE, Kind.IREE, Kind.IREE_DUMP)
        if declared.entry or (of_target and self._has_toolchains):
            return None
        return declared.env or self.matrix.reference_env

    def env(self, stage: str, cell: Cell) -> str:
        """The environment in which a stage of a cell runs."""
        if env := self.one_env(stage):
            return env
        entry = self._entry(STAGES[stage], cell) or self.matrix.target_of(cell.target)
        return entry.env

    def env_request(self, cell: Cell) -> str:
        """The environment to make, as fields of a request."""
        env = cell.env
        return compact(
            {"prefix": environments.prefix(env), "pins": self.environments.pins_digest(env)}
        )

    def python(self, env: str) -> str:
        """The interpreter of an environment. conda puts its own first on PATH."""
        return "python" if self.with_conda else f"{environments.prefix(env)}/bin/python"

    def report_python(self) -> str:
        """The interpreter of the aggregation: the driver's own, unless conda makes one."""
        return "python" if self.with_conda else shlex.quote(sys.executable)

    def env_status(self, env: str) -> list[str]:
        """The status file of an environment, as an input. Empty under conda, which makes its own."""
        return [] if self.with_conda else [stages.status_path("env", env)]

    def env_packages(self, env: str) -> list[str]:
        """The file that lists an environment's packages. It is deleted together with the environment."""
        return [] if self.with_conda else [environments.packages_file(env)]

    def stands(self, stage: str, cell: Cell) -> bool:
        """Whether a stage of a cell is recorded as ok, in an environment that was made from its current pins. conda
        takes care of the environment itself."""
        try:
            on_record = fingerprint.recorded_outcome(self._status(STAGES[stage], cell))
        except ValueError:
            return False
        if on_record is None or on_record.outcome.status != outcome.OK:
            return False
        return self.with_conda or self.environments.is_of_pins(self.env(stage, cell))

    def forked(self, stage: str, cell: Cell) -> bool:
        """Whether the process of a stage of a cell may be forked from one that has imported the
        packages of its environment (the fork server)."""
        declared = STAGES[stage]
        return declared.forked and _forkable(self._entry(declared, cell))

    def row_forked(self, row: Cell) -> bool:
        """Whether the process that times a row may be forked."""
        return self.forked(stages.LAST[row.kind], row)

    def forked_alike(self, stage: str) -> bool | None:
        """`forked` for all cells of a stage; None if they differ."""
        declared = STAGES[stage]
        entries = self._entries(declared).values() if declared.entry else [None]
        answers = {declared.forked and _forkable(entry) for entry in entries}
        return answers.pop() if len(answers) == 1 else None

    def due(self, stage: str, cell: Cell) -> str:
        """The value of the param `due` of a job, by which Snakemake runs it again (fingerprint.due)."""
        declared = STAGES[stage]
        retry = self.retry
        if declared.kind is Kind.ENV:  # what kept it from being made may be gone; not for "all"
            retry = frozenset(outcome.FAILED)
            if self.environments.is_gone(cell.env):
                retry |= {"all"}
        elif not declared.measures:  # no part of a row's measuring code
            retry -= {fingerprint.STALE}
        if declared.remedies:
            return self.modules.due(cell, str(declared.version), retry, self._met_limits(stage))
        return fingerprint.due(
            self._status(declared, cell),
            fingerprint.of_stage(declared),
            retry,
            self._met_limits(stage),
            self._problems(declared, cell),
        )

    def _problems(self, stage: Stage, cell: Cell) -> list[Outcome]:
        """The outcomes of the problems of a batch, or of the members of a group; empty for other stages."""
        if stage.kind is Kind.GROUP:
            return group.outcomes(Path(stage.path(cell)))
        if not stage.is_batch:
            return []
        return [
            ending.outcome
            for ending in outcome.read_problem_ends_if_whole(stage.path(cell, OUTCOMES)).values()
        ]

    def _status(self, stage: Stage, cell: Cell) -> str:
        return stage.path(cell.to(stage.kind), STATUS)

    def _entries(self, stage: Stage) -> Mapping[str, Frontend | Baseline]:
        return self._frontends if stage.entry == "frontend" else self._baselines

    def _entry(self, stage: Stage, cell: Cell) -> Frontend | Baseline | None:
        """The configuration's entry that names the environment and modules of a stage."""
        return self._entries(stage)[getattr(cell, stage.entry)] if stage.entry else None

    def limit(self, stage: str) -> dict[str, float]:
        """The entry of `limits` that a stage runs under."""
        return self.matrix.limits[STAGES[stage].limits_key]

    def _met_limits(self, stage: str) -> dict[str, float]:
        """The limits of a stage, by the status that exceeding them gives. A memory limit that is not set is
        left out: it is a share of the machine's memory, and the machine may have been another one."""
        limit = self.limit(stage)
        return {"timeout": limit["timeout_s"]} | (
            {"oom": limit["memory_mb"]} if "memory_mb" in limit else {}
        )

    def within_limits(self, stage: str) -> resources.Ask:
        """The resources that a stage may use on this machine, for any model."""
        memory_mb = self._memory_mb[STAGES[stage].limits_key]
        return resources.within_limits(memory_mb, self.limit(stage)["timeout_s"])

    def ask(self, stage: str, cell: Cell, attempt: int, search_s: float = 0.0) -> resources.Ask:
        """The resources that a stage of a cell requests from a cluster. `attempt` counts from 1. `search_s`: seconds of the search for
        a module before it is verified."""
        declared, limit = STAGES[stage], self.limit(stage)
        if declared.need is None:
            raise ValueError(
                f"stage {stage} is never submitted: config/stages.py has no need of it"
            )
        if declared.is_batch:
            return resources.of_batch(declared.need, limit, attempt)
        return resources.request(
            declared.need,
            limit,
            _size_mb(STAGES["reference"].path(cell.model, "weights.irpa")),
            attempt,
            turns_s=self.groups.rule(cell.model).most_s,
            before_s=search_s,
            training=cell.test == TRAIN or stage == REFERENCES[TRAIN],
        )

    def node(self, entry: Target | Baseline) -> dict[str, int | str]:
        """The resources that request the node of a target or baseline, with the names of Snakemake's executors."""
        return self.matrix.nodes.get(entry.node, {})

    def skip(self, stage: str, cell: Cell) -> str:
        """`--skip <why>` for a stage that must not run according to a TorchBench file.

        It does not depend on what is selected, because running a part of the matrix must not
        invalidate results of the whole.
        """
        match STAGES[stage].skipped:
            case "cell":
                reason = self.matrix.override(str(cell.row)).skip
            case "model":
                reason = self.model(cell).skip
            case "training":
                reason = self.model(cell).skip_train
            case _:
                reason = ""
        return f"--skip {shlex.quote(reason)}" if reason else ""

    def reference(self, cell: Cell, file: str) -> str:
        """A file of the stage that makes what the test of a cell starts from and is compared with."""
        return STAGES[REFERENCES[cell.test]].path(cell.model, file)

    def module(self, cell: Cell, file: str) -> str:
        """A file of the compilation of an IREE cell."""
        return STAGES["compile"].path(cell.to(Kind.MODULE), file)

    def exported(self, cell: Cell) -> list[str]:
        """What is known of the program for all sizes that a cell runs: the report of its export, and the weights with which it
        was exported. Empty for a program for one size."""
        if not cell.dynamic:
            return []
        program = cell.to(Kind.PROGRAM)
        weights = STAGES["reference"].path(program.model, "weights.irpa")
        return [STAGES["export"].path(program, REPORT), weights]

    def program(self, cell: Cell, file: str) -> list[str]:
        """A file of the export whose program a baseline runs. Empty if it runs the model itself."""
        if not self.matrix.runs_program(cell):
            return []
        return [STAGES["export"].path(self.matrix.program(cell), file)]
