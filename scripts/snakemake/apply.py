"""Checks and applies the patches that a run needs, and warns about those that are switched off."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError

from scripts.run.resources import ATTEMPTS
from scripts.snakemake import (
    adoption,
    executors,
    jobstarts,
    orphans,
    restarts,
    slurm_accounting,
    stopping,
    submissions,
    watching,
)
from scripts.snakemake.patch import Patch
from scripts.snakemake.registry import PATCHES


def apply(workflow: Any, logger: logging.Logger) -> Patches:
    """Apply the patches that are needed before the rules are read; `start` applies the rest.

    `workflow` and `logger` are those of the Snakefile. Raises WorkflowError on a cluster node if a
    stage would not be safe without a patch.
    """
    return Patches(workflow, logger)


class Patches:
    """The patches of one run, and all questions to Snakemake's internals."""

    def __init__(self, workflow: Any, logger: logging.Logger) -> None:
        self._workflow = workflow
        self._logger = logger
        self._problems = {p.name: problem for p in PATCHES if (problem := p.problem())}
        self._notes = orphans.Notes()
        self._said: set[str] = set()
        self.on_node: bool = getattr(workflow, "remote_exec", False)
        if self.on_node:
            self._need(submissions.SIDE_BY_SIDE)
            return
        bases = {
            watching.WATCHING: watching.Watching,
            orphans.ORPHANS: orphans.Noting,
            submissions.CORES: executors.AllCores,
        }
        on = tuple(base for patch, base in bases.items() if self._on(patch))
        if on:
            executors.subclass(on, {"notes": self._notes})
        if not self.may_submit:
            self._say("local")

    @property
    def may_submit(self) -> bool:
        """Whether jobs may go to a cluster, or this process runs on a cluster node. This is what is known
        while the rules are read: without `--jobs`, no job can be submitted."""
        return self.on_node or self._workflow.resource_settings.nodes is not None

    @property
    def submits(self) -> bool:
        """Whether this process submits its jobs to a cluster. Known once the rules are read."""
        plugin = self._workflow.executor_plugin
        return plugin is not None and plugin.common_settings.non_local_exec

    def side_by_side(self, **stages: int) -> None:
        """Set how many stages of a kind run at the same time in one submission, by resource."""
        if self._on(submissions.SIDE_BY_SIDE):
            for resource, number in stages.items():
                self._workflow.register_resource(resource, number)

    def name_group(self, group: str, known_as: str) -> None:
        """Set the name by which `group-components` of a profile refers to a group that a function returns."""
        if self._on(submissions.GROUPS):
            self._workflow.parent_groupids[group] = known_as

    def start(self) -> None:
        """Prepare a run before its first job. On a cluster this may start the run over instead.

        Raises WorkflowError if the run would not be safe.
        """
        try:
            if self.submits:
                self._start_submitting()
            else:
                orphans.refuse()
                self._say("local")
                if self._on(jobstarts.NO_LIMIT):
                    jobstarts.lift(self._workflow.scheduler)
        except (orphans.StillRunning, restarts.Unsettled) as problem:
            raise WorkflowError(str(problem)) from problem

    def stop_after(self, problem: Callable[[Sequence[str]], str]) -> None:
        """End the run after the first job for whose outputs `problem` returns a message."""
        self._say("asked")
        if self._on(stopping.STOPPING):
            self._logger.addHandler(stopping.Stopping(self._workflow.scheduler, problem))

    def end(self) -> None:
        """Clean up after the last job of a run."""
        self._notes.end()

    def _start_submitting(self) -> None:
        workflow = self._workflow
        for patch in PATCHES:
            if patch.runs == "cluster" and not patch.safe:
                self._need(patch)
        self._say("cluster")
        if self._on(jobstarts.ONE_TIMER):
            jobstarts.calm(workflow.scheduler)
        if self._on(submissions.CORES):
            submissions.forget_own_cores(workflow)
        attempts = 1 + workflow.execution_settings.retries
        if attempts < ATTEMPTS:
            raise WorkflowError(
                f"each job has {attempts} attempt(s), but a stage gets all that its limits allow"
                f" only in attempt {ATTEMPTS}: set retries: {ATTEMPTS - 1} or more in the profile"
            )
        if problem := slurm_accounting.problem(workflow.executor_settings):
            raise WorkflowError(problem)
        if problem := self._notes.problem(workflow.executor_plugin.name):
            raise WorkflowError(problem)
        killed = orphans.NOTES.is_file()
        if stopped := orphans.stop(workflow.executor_plugin.name, workflow.executor_settings):
            restarts.start_over("cancelled jobs of an earlier run", stopped, workflow.rundir)
        if killed and (
            anew := adoption.adopt(workflow.dag, workflow.persistence, workflow.async_run)
        ):
            restarts.start_over(
                "recorded or removed outcomes of an earlier run", anew, workflow.rundir
            )
        restarts.settled()
        self._notes.begin()

    def _on(self, patch: Patch) -> bool:
        return patch.name not in self._problems

    def _need(self, patch: Patch) -> None:
        """Raise WorkflowError if a patch that a run on a cluster needs is switched off."""
        if problem := self._problems.get(patch.name):
            raise WorkflowError(
                f"{patch.name}: {problem}. A run on a cluster is not safe without this patch: "
                f"{patch.without}. Install snakemake{patch.version} (requirements.txt), or run on "
                "one machine."
            )

    def _say(self, runs: str) -> None:
        """Warn once about each patch that is switched off."""
        for patch in PATCHES:
            if patch.runs == runs and patch.safe and patch.name not in self._said:
                self._said.add(patch.name)
                if problem := self._problems.get(patch.name):
                    self._logger.warning(
                        f"switched off: {patch.name} ({problem}). Without it, {patch.without}."
                    )
