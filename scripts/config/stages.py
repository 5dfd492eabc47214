"""The stages of the workflow: what a stage declares, and one entry each, from which params, limits, requests and tables come.

A stage is an entry here, or in `<feature>_stages.py` of its feature, a rule in workflow/rules/ and its entry point: a module of scripts/stages/, or of its feature.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass

from scripts.config.cell import PATTERNS, Cell, Kind
from scripts.core import checkout

IREE_ENV = "iree"
"""The environment of IREE's compiler and runtime."""
STATUS = "status.json"
VERIFICATION = "verification.json"
TIMING = "timing.json"
REPORT = "report.json"
OUTCOMES = "outcomes.jsonl"
"""The outcome of each problem of a batch (scripts/supervise/outcome.py)."""


@dataclass(frozen=True)
class Need:
    """What a stage requests from a cluster: memory (MiB) and time (s), each as a base plus an amount per
    MiB or GiB of weights.

    `memory`: what determines the memory per MiB of weights: "weights" (1 MiB), "exporter" or "runtime"
    (as their files declare), or "" (none). `turns`: whether the time of a group's turns is added.
    """

    base_mb: float
    base_s: float
    s_a_gb: float
    memory: str = ""
    turns: bool = False


@dataclass(frozen=True)
class Stage:
    """One stage, which one rule runs.

    `kind`: the kind of its cells. `modules`: its code, its entry point first; {exporter} and {runtime} are those of its
    entry. `version`: of that code. A failure is due again when it changes, and a measurement is stale. `entry`: the axis whose entry of the
    configuration (frontends, baselines) names its environment; otherwise `env` does; otherwise it is
    that of the references. `after`: the stage before it in the chain.
    `recorded_as`: its folder below results/, and its name in status files and tables.
    `limits`: the entry of the configuration's `limits` that applies to it. Both default to its
    name. `timeout_s`: its time limit where `limits` has no entry; 0: the entry has to be there. `need`: what it requests from a cluster; None for a stage that is never submitted.
    `forked`: its process may be forked from one that has imported the packages of its environment.
    `wants_device`: its outcome depends on devices or compilers of the machine. `skipped`: for what a
    TorchBench file may skip it: "cell", "model" or "training"; "" for never.
    `own_rule`: the name of its rule, if that is the rule of another stage with other inputs.
    `aggregated`: its files that the aggregation reads. `checked_by`: the module whose `problem(data)` says what is wrong
    with the JSON of its report, if it has a separate form. `remedies`: the stage whose failures it tries to
    make good; it is in the chain of a row in that stage's place if it has done so.
    """

    name: str
    kind: Kind
    modules: tuple[str, ...]
    entry: str = ""
    env: str = ""
    after: str = ""
    recorded_as: str = ""
    limits: str = ""
    timeout_s: float = 0
    need: Need | None = None
    wants_device: bool = False
    forked: bool = False
    skipped: str = ""
    aggregated: tuple[str, ...] = ()
    remedies: str = ""
    own_rule: str = ""
    checked_by: str = ""
    version: int = 1

    @property
    def folder(self) -> str:
        return self.recorded_as or self.name

    @property
    def rule(self) -> str:
        """The rule that runs it: the name of its script; for what remedies failures, with `_by_remedy`."""
        if self.own_rule:
            return self.own_rule
        script = self.modules[0].rpartition(".")[2]
        return f"{script}_by_remedy" if self.remedies else script

    @property
    def limits_key(self) -> str:
        return self.limits or self.name

    @property
    def is_batch(self) -> bool:
        """Whether a job works on a batch of problems, each with a separate outcome."""
        return OUTCOMES in self.aggregated

    @property
    def measures(self) -> bool:
        """Whether it verifies or times."""
        return bool({VERIFICATION, TIMING} & {*self.aggregated}) or (
            self.is_batch and self.wants_device
        )

    def path(self, cell: object, file: str = "") -> str:
        """The path of a file of one of its cells (without `file`: of the folder). `cell`: one of them, or its
        name."""
        return f"results/{self.folder}/{cell}/{file}".removesuffix("/")

    def pattern(self, file: str = "") -> str:
        """The path of a file of any of its cells, with wildcards, for a rule."""
        return self.path(PATTERNS[self.kind], file)


# The needs are twice what the stages of the default run and the full-size language models of
# docs/models.md took on two cores (at most: reference 2.6 GB and 109 s for 7.1 GB of weights, export
# 2.8 GB and 61 s for 7.1 GB, compile 2.2 GB, baseline 36 s).
_DECLARED = (
    Stage("env", Kind.ENV, ("scripts.stages.make_env",)),
    Stage(
        "reference",
        Kind.MODEL,
        ("scripts.stages.make_reference",),
        skipped="model",
        forked=True,
        need=Need(3000, 120, 30, "weights"),
    ),
    Stage(
        "gradients",
        Kind.MODEL,
        ("scripts.stages.make_gradients",),
        after="reference",
        limits="reference",
        skipped="training",
        forked=True,
        need=Need(3000, 120, 60, "weights"),
    ),
    Stage(
        "export",
        Kind.PROGRAM,
        ("scripts.stages.export_program", "scripts.frontends.exporters.{exporter}"),
        version=3,
        entry="frontend",
        after="reference",
        forked=True,
        need=Need(3000, 120, 20, "exporter"),
        aggregated=(REPORT,),
    ),
    Stage(
        "compile",
        Kind.MODULE,
        ("scripts.stages.compile_iree",),
        version=2,
        env=IREE_ENV,
        after="export",
        skipped="cell",
        forked=True,
        need=Need(3000, 120, 0),
        aggregated=(REPORT,),
    ),
    Stage(
        "verify",
        Kind.IREE,
        ("scripts.stages.verify_iree",),
        env=IREE_ENV,
        after="compile",
        forked=True,
        need=Need(1500, 60, 20, "weights"),
        wants_device=True,
        aggregated=(STATUS, VERIFICATION),
    ),
    Stage(
        "baseline",
        Kind.BASELINE,
        ("scripts.stages.verify_baseline", "scripts.baselines.{runtime}"),
        entry="baseline",
        after="reference",
        skipped="cell",
        forked=True,
        need=Need(3000, 120, 30, "runtime"),
        wants_device=True,
        aggregated=(STATUS, VERIFICATION),
    ),
    Stage(
        "time",
        Kind.GROUP,
        ("scripts.stages.time_group", "scripts.stages.time_module"),
        need=Need(3000, 300, 120, "group", turns=True),
        wants_device=True,
        aggregated=(STATUS, TIMING),
    ),
)


def _all() -> dict[str, Stage]:
    """The stages of the core and of features, by name. One that makes failures good comes after the stage whose they are."""
    declared = list(_DECLARED)
    for file in sorted(checkout.ROOT.glob("scripts/tools/*/*_stages.py")):
        module = importlib.import_module(f"scripts.tools.{file.parent.name}.{file.stem}")
        for stage in module.STAGES:
            names = [other.name for other in declared]
            at = names.index(stage.remedies) + 1 if stage.remedies else len(declared)
            declared.insert(at, stage)
    return {stage.name: stage for stage in declared}


STAGES = _all()
"""All stages by name, in the order of tables."""

OPTIONAL_LIMITS = {
    stage.limits_key: {"timeout_s": stage.timeout_s} for stage in STAGES.values() if stage.timeout_s
}
"""Entries of `limits` that a configuration may leave out, with their defaults."""

LAST = {
    Kind.IREE: "verify",
    Kind.BASELINE: "baseline",
    Kind.BATCH_IREE: "operator_verify",
    Kind.BATCH_BASELINE: "operator_baseline",
}
"""The last stage of a row's own, by the kind of its cell. Rows are then timed in their group (`time`, `operator_time`)."""


def folders() -> tuple[str, ...]:
    """The folders below results/, in order. They are also the names of stages in status files."""
    return tuple(dict.fromkeys(stage.folder for stage in STAGES.values()))


def limits() -> tuple[str, ...]:
    """The keys of the configuration's `limits`."""
    return tuple(dict.fromkeys(stage.limits_key for stage in STAGES.values()))


def wants_device(folder: str) -> bool:
    """Whether a stage, by its name in status files, depends on devices of the machine."""
    return any(stage.wants_device for stage in STAGES.values() if stage.folder == folder)


def status_path(folder: str, cell: object) -> str:
    """The path of the status file of a stage and a cell, by their names in status files."""
    return f"results/{folder}/{cell}/{STATUS}"


def before(last: str) -> list[Stage]:
    """The stages of a chain up to the stage `last`, in order."""
    stages = [STAGES[last]]
    while stages[-1].after:
        stages.append(STAGES[stages[-1].after])
    return stages[::-1]


def chain(last: str, cell: Cell) -> list[tuple[Stage, Cell]]:
    """The stages that a stage comes after, the first one first, and the stage itself; each with the cell on which `cell` depends."""
    return [(stage, cell.to(stage.kind)) for stage in before(last)]


def of_row(row: Cell) -> list[tuple[Stage, Cell]]:
    """The chain of a row."""
    return chain(LAST[row.kind], row)


def made_good_by(folder: str) -> Stage | None:
    """The stage whose failures another one, by its name in status files, tries to make good; None for other stages."""
    tried = next((stage for stage in STAGES.values() if stage.folder == folder), None)
    return STAGES[tried.remedies] if tried and tried.remedies else None


def remedied(entries: Iterable[tuple[Stage, Cell]]) -> list[tuple[Stage, Cell]]:
    """A chain in which the stages that a remedy has made good are replaced by those that did so."""
    instead = {stage.remedies: stage for stage in STAGES.values() if stage.remedies}
    return [(instead.get(stage.name, stage), cell) for stage, cell in entries]
