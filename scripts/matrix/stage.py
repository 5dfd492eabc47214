"""What a stage of the workflow declares: its cells, modules, environment, limits and needs."""

from __future__ import annotations

from dataclasses import dataclass

from scripts.matrix import cell
from scripts.matrix.cell import Kind

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
        script = self.modules[0].removeprefix("scripts.stages.")
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
        return self.path(cell.PATTERNS[self.kind], file)
