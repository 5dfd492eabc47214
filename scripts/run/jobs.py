"""What the rules of all stages share: their inputs, params, threads, resources and groups."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from scripts.config.cell import PATTERNS, Cell, Kind, most_threads, of_wildcards
from scripts.config.entries import Baseline, Target
from scripts.config.stages import STAGES
from scripts.run import resources
from scripts.run.plan import Plan

BUILDING = 4
"""Builds that run at a time in one submission."""
REFERENCE_FILES = {
    "weights": "weights.irpa",
    "inputs": "inputs.npz",
    "golden": "golden.npz",
    "signature": "signature.json",
}
"""The files of a reference, by the names of inputs."""

Answer = TypeVar("Answer")
Entry = Callable[[Cell], Target | Baseline]
"""The target or baseline of a cell, which names the kind of node that it needs."""

_OF_WILDCARDS = inspect.Signature(
    [inspect.Parameter("wildcards", inspect.Parameter.POSITIONAL_ONLY)]
)


def of_cell(answer: Callable[[Cell], Answer]) -> Callable[[Any], Answer]:
    """A function of a job's wildcards, for an input or a param, that asks about the job's cell.

    It has an explicit signature: Snakemake asks for the signature several times per call, and
    inspecting the code takes longer than most of these functions.
    """

    def ask(wildcards: Any) -> Answer:
        return answer(of_wildcards(wildcards))

    ask.__signature__ = _OF_WILDCARDS  # type: ignore[attr-defined]
    return ask


def artifact(stage: str, file: str = "") -> str:
    """The path of a stage's file with wildcards: results/<stage>/<cell>/<file>.

    Without `file`, the folder.
    """
    return STAGES[stage].pattern(file)


def beside_outputs(stage: str, file: str) -> str:
    """The path of a file that a stage leaves beside its outputs, for its command line.

    It is no output and no param: results from before there was such a file stay finished.
    """
    return artifact(stage, file).replace("{", "{wildcards.").replace("}", ":q}")


class Where(Protocol):
    """Where the jobs of a run are executed (scripts.run.snakemake.Patches)."""

    on_node: bool

    @property
    def may_submit(self) -> bool: ...

    @property
    def submits(self) -> bool: ...

    def name_group(self, group: str, known_as: str) -> None: ...


class Jobs:
    """Makes the parts of rules that all stages have. `cores`: those of the command line. `ancient`: Snakemake's flag of
    inputs whose age does not count.

    If no job can go to a cluster, threads and resources are values. Snakemake calls each function for each job, which
    for a large matrix takes a third of the time of `snakemake -n`.
    """

    def __init__(
        self, plan: Plan, where: Where, cores: int | None, ancient: Callable[[Any], Any]
    ) -> None:
        self._plan, self._where, self._cores, self._ancient = plan, where, cores, ancient
        self.all_here = not where.may_submit
        self.load_threads = {"load_threads": resources.threads_beside(cores)}
        """The field of a request by which a stage loads its model. OpenMP's threads spin while they wait: two models that load at
        the same time with all cores take three times the CPU time."""

    def environment(self, stage: str) -> dict[str, Any]:
        """The environment of a stage, as inputs.

        Making an environment again (because it was deleted or moved) must not invalidate results, so a cell
        that succeeded ignores its age. New pins are a param. But Snakemake does not compare the params of a
        job that follows a job which will run, so if this run makes the environment from new pins, the age
        counts.
        """

        def status(cell: Cell) -> Any:
            files = self._plan.env_status(self._plan.env(stage, cell))
            return self._ancient(files) if self._plan.stands(stage, cell) else files

        return {
            "packages": self._per_env(stage, lambda e: self._ancient(self._plan.env_packages(e))),
            "env": of_cell(status),
        }

    def _per_env(self, stage: str, answer: Callable[[str], Answer]) -> Any:
        """What depends only on the environment: a value if all cells of a stage have the same one, else a function."""
        if env := self._plan.one_env(stage):
            return answer(env)
        return of_cell(lambda cell: answer(self._plan.env(stage, cell)))

    def model_files(self) -> dict[str, Any]:
        """The file of a model and the files that it imports, as inputs."""
        return {
            "model_file": of_cell(lambda cell: self._plan.model(cell).file),
            "model_parts": of_cell(self._plan.model_parts),
        }

    def started_from(self, *names: str) -> dict[str, Any]:
        """What the test of a cell starts from and is compared with, as inputs: all of REFERENCE_FILES, or those of
        these names."""
        return {name: self.reference(REFERENCE_FILES[name]) for name in names or REFERENCE_FILES}

    def reference(self, file: str) -> Callable[[Any], str]:
        """A file of the stage that made them, as an input."""
        return of_cell(lambda cell: self._plan.reference(cell, file))

    def compared_with(self) -> dict[str, Any]:
        """The weights, inputs and golden results of a baseline, as inputs."""
        return {
            "before": self.reference("status.json"),
            **self.started_from("golden", "signature"),
            "weights": artifact("reference", "weights.irpa"),
            "inputs": artifact("reference", "inputs.npz"),
        }

    def compiled(self) -> dict[str, Any]:
        """The module of a cell and the status of what made it, as inputs.

        A cell that remedies take part in has two modules, of which the one that was not made is empty. The
        verification of a module that compiled as asked ignores the age of what its remedies left. The rows of
        results/tuned.csv have the modules of their tuning.
        """

        def files(cell: Cell, name: str) -> list[Any]:
            asked, *remedied = self._plan.modules.files(cell, name)
            stands = self._plan.modules.ignores_age(cell)
            return [asked, *(self._ancient(file) if stands else file for file in remedied)]

        return {
            "vmfb": of_cell(lambda cell: files(cell, "module.vmfb")),
            "before": of_cell(lambda cell: files(cell, "status.json")[-1]),
        }

    def params(self, stage: str) -> dict[str, Any]:
        """The params of every stage: its name and cell, its Python, and what makes it run again."""
        declared = STAGES[stage]
        # A function for "env", because Snakemake's linter mistakes that text for a path.
        is_env = declared.kind is Kind.ENV
        params: dict[str, Any] = {
            "stage": of_cell(lambda _: "env") if is_env else declared.folder,
            "cell": PATTERNS[declared.kind],
            "due": of_cell(lambda cell: self._plan.due(stage, cell)),
        }
        if declared.skipped:
            params["skip"] = of_cell(lambda cell: self._plan.skip(stage, cell))
        if not is_env:
            params["python"] = self._per_env(stage, self._plan.python)
            params["pins"] = self._per_env(stage, self._plan.environments.pins_digest)
        return params

    def slot_threads(self) -> Any:
        """Threads of a job that shares the machine: `--cores` divided by the jobs that it can run."""
        here = resources.slot_threads(self._cores)
        if self.all_here:
            return here
        return lambda wildcards: resources.CPUS if self._where.submits else here

    def all_threads(self) -> Any:
        """Threads of a job that times something: all, so that nothing else runs on the machine."""
        here = self._cores or 1
        if self.all_here:
            return here
        most = most_threads(self._plan.configured.measure)
        return lambda wildcards: most if self._where.submits else here

    def asks(self, stage: str, search_s: float = 0.0) -> dict[str, Any]:
        """Resources of a stage: its limits, what its job requests from a cluster's scheduler, whether it is forked, and whether
        its model file is not trusted. `search_s`: see Plan.ask.

        The last two are resources, because a changed resource re-runs nothing. On a cluster no stage is forked: few stages
        of a submission share an environment.
        """
        within = dataclasses.asdict(self._plan.within_limits(stage))
        if self.all_here:
            alike = self._plan.forked_alike(stage)
            forked = of_cell(lambda cell: int(self._plan.forked(stage, cell)))
            return {
                "preload": forked if alike is None else int(alike),
                "sandbox": self._sandbox(),
            } | {key: value for key, value in within.items() if not key.startswith("more_")}

        def of_attempt(field: str) -> Callable[[Any, int], float]:
            def ask(wildcards: Any, attempt: int) -> float:
                if not self._submitted():
                    return within[field]
                return getattr(
                    self._plan.ask(stage, of_wildcards(wildcards), attempt, search_s), field
                )

            return ask

        def preload(cell: Cell) -> int:
            return int(not self._submitted() and self._plan.forked(stage, cell))

        return {"preload": of_cell(preload), "sandbox": self._sandbox()} | {
            field: of_attempt(field) for field in within
        }

    def _sandbox(self) -> Any:
        if not self._plan.any_untrusted:
            return 0
        return of_cell(lambda cell: int(self._plan.is_untrusted(cell)))

    def beside_others(self) -> dict[str, Any]:
        """Resources of a stage that shares its machine with a few others in one submission."""
        return self._on_cluster(cpus_per_task=lambda _: resources.CPUS, building=lambda _: 1)

    def verified_on(self, entry_of: Entry) -> dict[str, Any]:
        """Resources of a verification, on the kind of node of its target or baseline.

        Snakemake adds up what the jobs of a submission ask for that run at a time. So those that ask for
        a device run one after the other: three of them would ask for three devices.
        """

        def building(cell: Cell) -> int:
            return BUILDING if {"gpu", "gres"} & self._plan.node(entry_of(cell)).keys() else 1

        shared = self._on_cluster(cpus_per_task=lambda _: resources.CPUS, building=building)
        return self.on_node(entry_of) | shared

    def alone_on(self, entry_of: Entry) -> dict[str, Any]:
        """Resources of a measurement: its kind of node, and one at a time in one submission.

        With -1, Snakemake's Slurm executor requests no number of cores; with `--exclusive`, all of them.
        """
        alone = self._on_cluster(cpus_per_task=lambda _: -1, measuring=lambda _: 1)
        return self.on_node(entry_of) | alone

    def on_node(self, entry_of: Entry) -> dict[str, Any]:
        """Resources of a stage on the kind of node of its target or baseline."""

        def of_node(key: str) -> Callable[[Cell], Any]:
            return lambda cell: self._plan.node(entry_of(cell)).get(key)

        keys = {key for node in self._plan.configured.nodes.values() for key in node}
        return self._on_cluster(**{key: of_node(key) for key in sorted(keys)})

    def _on_cluster(self, **of_field: Callable[[Cell], Any]) -> dict[str, Any]:
        """Resources that only jobs of a submission have."""

        def if_submitted(answer: Callable[[Cell], Any]) -> Callable[[Any], Any]:
            return of_cell(lambda cell: answer(cell) if self._submitted() else None)

        if self.all_here:
            return {}
        return {field: if_submitted(answer) for field, answer in of_field.items()}

    def _submitted(self) -> bool:
        return self._where.submits or self._where.on_node

    def together(self, group: str) -> str | None:
        """The group of a rule's jobs, which form one submission. None if nothing is submitted."""
        return None if self.all_here else group

    def group_on(self, what: str, entry_of: Entry) -> Callable[[Any], str] | None:
        """The group of jobs on a kind of node. In profiles its name is verify-{node} or measure-{node}.

        Verifications share their node and measurements do not, so the two ask for it differently.
        """

        def group(cell: Cell) -> str:
            node = entry_of(cell).node
            self._where.name_group(f"{what}-{node}", known_as=what + "-{node}")
            return f"{what}-{node}"

        return None if self.all_here else of_cell(group)
