"""The stages of the workflow: one entry each, from which params, limits, requests and tables come.

A stage is an entry here, a rule in workflow/rules/, a script, and the include in the Snakefile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scripts.lib.config import cell
from scripts.lib.config.cell import Cell, Kind

IREE_ENV = "iree"
STATUS = "status.json"
MEASUREMENT = "measurement.json"
REPORT = "report.json"
TURNS = "turns.json"
OUTCOMES = "outcomes.jsonl"
"""The outcome of each problem of a batch (batch/outcomes.py)."""
OPTIONAL_LIMITS = {"operators": {"timeout_s": 60}}
"""Entries of `limits` that a configuration may leave out, with their defaults."""


@dataclass(frozen=True)
class Need:
    """What a stage requests from a cluster: memory (MiB) and time (s), each as a base plus an amount per
    MiB or GiB of weights.

    `memory`: what determines the memory per MiB of weights: "weights" (1 MiB), "exporter" or "runtime"
    (as their files declare), or "" (none). `repeats`: whether the time of `measure.budget_s` is added.
    """

    base_mb: float
    base_s: float
    s_a_gb: float
    memory: str = ""
    repeats: bool = False


@dataclass(frozen=True)
class Stage:
    """One stage, which one rule runs.

    `kind`: the kind of its cells. `modules`: the modules that its fingerprint covers, its own script
    first; a {field} is replaced by a value of its entry. `entry`: the axis whose entry of the
    configuration (frontends, baselines) names its environment; otherwise `env` does; otherwise it is
    that of the references. `after`: the stage before it in the chain.
    `recorded_as`: its folder below results/, and its name in status files and tables.
    `limits`: the entry of the configuration's `limits` that applies to it. Both default to its
    name. `need`: what it requests from a cluster; None for a stage that is never submitted.
    `forked`: its process may be forked from one that has imported the packages of its environment.
    `wants_device`: its outcome depends on devices or compilers of the machine. `skipped`: for what a
    TorchBench file may skip it: "cell", "model" or "training"; "" for never.
    `aggregated`: its files that the aggregation reads. `second_round_of`: the stage whose measurement
    it repeats later in the run, for the same cells. `remedies`: the stage whose failures it tries to
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
    need: Need | None = None
    wants_device: bool = False
    forked: bool = False
    skipped: str = ""
    aggregated: tuple[str, ...] = ()
    second_round_of: str = ""
    remedies: str = ""

    @property
    def folder(self) -> str:
        return self.recorded_as or self.name

    @property
    def rule(self) -> str:
        """The rule that runs it: the name of its script; for a second round, with `_again`, for what
        remedies failures, with `_by_remedy`."""
        script = self.modules[0].removeprefix("scripts.")
        if self.remedies:
            return f"{script}_by_remedy"
        return f"{script}_again" if self.second_round_of else script

    @property
    def limits_key(self) -> str:
        return self.limits or self.name

    @property
    def is_batch(self) -> bool:
        """Whether a job works on a batch of problems, each with an outcome of its own."""
        return OUTCOMES in self.aggregated

    @property
    def measures(self) -> bool:
        """Whether it verifies and times."""
        return MEASUREMENT in self.aggregated or (self.is_batch and self.wants_device)

    def path(self, of: object, file: str = "") -> str:
        """The path of a file of one of its cells (without `file`: of the folder). `of` is a cell or its
        name."""
        return f"results/{self.folder}/{of}/{file}".removesuffix("/")

    def pattern(self, file: str = "") -> str:
        """The same path with wildcards, for a rule."""
        return self.path(cell.shape(self.kind).pattern, file)


# The needs are twice what the stages of the default run and the full-size language models of
# docs/models.md took on two cores (at most: reference 2.6 GB and 109 s for 7.1 GB of weights, export
# 2.8 GB and 61 s for 7.1 GB, compile 2.2 GB, baseline 36 s).
_DECLARED = (
    Stage("env", Kind.ENV, ("scripts.make_env",)),
    Stage(
        "reference",
        Kind.MODEL,
        ("scripts.make_reference",),
        skipped="model",
        forked=True,
        need=Need(3000, 120, 30, "weights"),
    ),
    Stage(
        "gradients",
        Kind.MODEL,
        ("scripts.make_gradients",),
        after="reference",
        limits="reference",
        skipped="training",
        forked=True,
        need=Need(3000, 120, 60, "weights"),
    ),
    Stage(
        "trace",
        Kind.MODEL,
        ("scripts.trace_operators",),
        limits="reference",
        skipped="model",
        forked=True,
        need=Need(3000, 120, 60, "weights"),
    ),
    Stage(
        "export",
        Kind.PROGRAM,
        ("scripts.export_program", "scripts.exporters.{exporter}"),
        entry="frontend",
        after="reference",
        forked=True,
        need=Need(3000, 120, 20, "exporter"),
        aggregated=(REPORT,),
    ),
    Stage(
        "compile",
        Kind.MODULE,
        ("scripts.compile_iree",),
        env=IREE_ENV,
        after="export",
        skipped="cell",
        forked=True,
        need=Need(3000, 120, 0),
        aggregated=(REPORT,),
    ),
    Stage(
        "remedy",
        Kind.MODULE,
        ("scripts.compile_iree",),
        env=IREE_ENV,
        after="compile",
        limits="compile",
        forked=True,
        need=Need(3000, 360, 0),
        aggregated=(REPORT,),
        remedies="compile",
    ),
    Stage(
        "tune",
        Kind.TUNING,
        (
            "scripts.tune_iree",
            "scripts.compile_iree",
            "scripts.measure_iree",
            "scripts.tune_dispatches",
        ),
        env=IREE_ENV,
        after="reference",
        limits="compile",
        forked=True,
        need=Need(3000, 900, 60, "weights"),
        wants_device=True,
        aggregated=(STATUS, REPORT),
    ),
    Stage(
        "measure",
        Kind.IREE,
        ("scripts.measure_iree",),
        env=IREE_ENV,
        after="compile",
        forked=True,
        need=Need(1500, 60, 20, "weights", repeats=True),
        wants_device=True,
        aggregated=(STATUS, MEASUREMENT),
    ),
    Stage(
        "baseline",
        Kind.BASELINE,
        ("scripts.measure_baseline", "scripts.baselines.{runtime}"),
        entry="baseline",
        after="reference",
        skipped="cell",
        forked=True,
        need=Need(3000, 120, 30, "runtime", repeats=True),
        wants_device=True,
        aggregated=(STATUS, MEASUREMENT),
    ),
    Stage(
        "machine_limits",
        Kind.DEVICE,
        ("scripts.measure_machine_limits",),
        limits="baseline",
        forked=True,
        need=Need(4000, 300, 0),
        wants_device=True,
    ),
    Stage(
        "measure_again",
        Kind.IREE,
        ("scripts.measure_iree",),
        env=IREE_ENV,
        after="measure",
        limits="measure",
        forked=True,
        need=Need(1500, 60, 20, "weights", repeats=True),
        wants_device=True,
        aggregated=(STATUS, MEASUREMENT),
        second_round_of="measure",
    ),
    Stage(
        "baseline_again",
        Kind.BASELINE,
        ("scripts.measure_baseline", "scripts.baselines.{runtime}"),
        entry="baseline",
        after="baseline",
        limits="baseline",
        skipped="cell",
        forked=True,
        need=Need(3000, 120, 30, "runtime", repeats=True),
        wants_device=True,
        aggregated=(STATUS, MEASUREMENT),
        second_round_of="baseline",
    ),
    Stage(
        "turns",
        Kind.IREE,
        ("scripts.measure_turns",),
        limits="measure",
        need=Need(1500, 300, 60, "weights"),
        wants_device=True,
    ),
    Stage(
        "dump_iree",
        Kind.IREE_DUMP,
        ("scripts.dump_iree",),
        env=IREE_ENV,
        after="export",
        recorded_as="dumps",
        limits="baseline",
        skipped="cell",
        need=Need(4000, 300, 60, "runtime"),
        wants_device=True,
    ),
    Stage(
        "dump_baseline",
        Kind.BASELINE,
        ("scripts.dump_baseline", "scripts.baselines.{runtime}"),
        entry="baseline",
        after="reference",
        recorded_as="dumps",
        limits="baseline",
        skipped="cell",
        need=Need(4000, 300, 60, "runtime"),
        wants_device=True,
    ),
    Stage(
        "operator_reference",
        Kind.BATCH,
        ("scripts.make_operator_references",),
        limits="operators",
        forked=True,
        need=Need(3000, 1800, 0),
        aggregated=(STATUS, OUTCOMES),
    ),
    Stage(
        "operator_export",
        Kind.BATCH_PROGRAM,
        ("scripts.export_operators", "scripts.exporters.{exporter}"),
        entry="frontend",
        after="operator_reference",
        limits="operators",
        forked=True,
        need=Need(3000, 1800, 0),
        aggregated=(STATUS, OUTCOMES),
    ),
    Stage(
        "operator_compile",
        Kind.BATCH_IREE,
        ("scripts.compile_operators",),
        env=IREE_ENV,
        after="operator_export",
        limits="operators",
        need=Need(3000, 1800, 0),
        aggregated=(STATUS, OUTCOMES),
    ),
    Stage(
        "operator_measure",
        Kind.BATCH_IREE,
        ("scripts.measure_operators",),
        env=IREE_ENV,
        after="operator_compile",
        limits="operators",
        forked=True,
        need=Need(3000, 1800, 0),
        wants_device=True,
        aggregated=(STATUS, OUTCOMES),
    ),
    Stage(
        "operator_baseline",
        Kind.BATCH_BASELINE,
        ("scripts.measure_operator_baseline", "scripts.baselines.{runtime}"),
        entry="baseline",
        after="operator_reference",
        limits="operators",
        forked=True,
        need=Need(3000, 1800, 0),
        wants_device=True,
        aggregated=(STATUS, OUTCOMES),
    ),
    Stage(
        "profile_iree",
        Kind.IREE_DUMP,
        ("scripts.profile_iree",),
        env=IREE_ENV,
        after="compile",
        recorded_as="profile",
        limits="baseline",
        skipped="cell",
        need=Need(4000, 300, 60, "runtime"),
        wants_device=True,
    ),
    Stage(
        "profile_baseline",
        Kind.BASELINE,
        ("scripts.profile_baseline", "scripts.baselines.{runtime}"),
        entry="baseline",
        after="reference",
        recorded_as="profile",
        limits="baseline",
        skipped="cell",
        need=Need(4000, 300, 60, "runtime"),
        wants_device=True,
    ),
)

STAGES: dict[str, Stage] = {stage.name: stage for stage in _DECLARED}
"""All stages by name, in the order of tables."""

LAST = {
    Kind.IREE: "measure",
    Kind.BASELINE: "baseline",
    Kind.BATCH_IREE: "operator_measure",
    Kind.BATCH_BASELINE: "operator_baseline",
}
"""The last stage of a row, by the kind of its cell. A second round of a model's row may follow."""


def folders() -> tuple[str, ...]:
    """The folders below results/, in order. They are also the names of stages in status files."""
    return tuple(dict.fromkeys(stage.folder for stage in STAGES.values()))


def limits() -> tuple[str, ...]:
    """The keys of the configuration's `limits`."""
    return tuple(dict.fromkeys(stage.limits_key for stage in STAGES.values()))


def wants_device(folder: str) -> bool:
    """Whether a stage, by its name in status files, depends on devices of the machine."""
    return any(stage.wants_device for stage in STAGES.values() if stage.folder == folder)


def status_path(folder: str, of: object) -> str:
    """The path of the status file of a stage and a cell, by their names in status files."""
    return f"results/{folder}/{of}/{STATUS}"


def before(last: str) -> list[Stage]:
    """The stages of a chain up to the stage `last`, in order."""
    found = [STAGES[last]]
    while found[-1].after:
        found.append(STAGES[found[-1].after])
    return found[::-1]


def chain(last: str, of: Cell) -> list[tuple[Stage, Cell]]:
    """The same, each with the cell on which the cell `of` depends."""
    return [(stage, of.to(stage.kind)) for stage in before(last)]


def of_row(row: Cell) -> list[tuple[Stage, Cell]]:
    """The chain of a row."""
    return chain(LAST[row.kind], row)


def remedied(found: Iterable[tuple[Stage, Cell]]) -> list[tuple[Stage, Cell]]:
    """A chain in which the stages that a remedy has made good are replaced by those that did so."""
    instead = {stage.remedies: stage for stage in STAGES.values() if stage.remedies}
    return [(instead.get(stage.name, stage), of) for stage, of in found]


def second_round(row: Cell) -> tuple[Stage, Cell]:
    """The stage that measures a model's row again."""
    found = (s for s in STAGES.values() if s.second_round_of == LAST[row.kind])
    return next(found), row


def first_round(folder: str) -> str:
    """The name of a stage in status files; for a second round, that of its first round."""
    return next(
        (s.second_round_of for s in STAGES.values() if s.folder == folder and s.second_round_of),
        folder,
    )


def modules(stage: Stage, entry: Any) -> tuple[str, ...]:
    """The modules of a stage, including those that its entry of the configuration names."""
    fields: Mapping[str, Any] = vars(entry) if entry is not None else {}
    return tuple(module.format_map(fields) for module in stage.modules)
