"""Checks and applies the patches that a run needs, and warns about those that are switched off."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError

from scripts.run.resources import ATTEMPTS
from scripts.snakemake import executors, orphans, patch, scheduler, submissions
from scripts.snakemake.patch import VERSION, Patch

PATCHES: tuple[Patch, ...] = (
    scheduler.NO_LIMIT,
    scheduler.STOPPING,
    scheduler.ONE_TIMER,
    executors.EXECUTORS,
    submissions.UNWATCHED,
    submissions.ON_NODE,
    submissions.SIDE_BY_SIDE,
    submissions.GROUPS,
    submissions.CORES,
)
"""Every patch of Snakemake that this project applies; docs/architecture.md has them as a table."""


class Patches:
    """The patches of one run, and all questions to Snakemake's internals.

    `workflow` and `logger` are those of the Snakefile. The constructor applies what is needed before the rules are read,
    and `start` the rest. Raises WorkflowError on a cluster node if a stage would not be safe without a patch.
    """

    def __init__(self, workflow: Any, logger: logging.Logger) -> None:
        self._workflow = workflow
        self._logger = logger
        self._problem = patch.problem()
        self._notes = orphans.Notes()
        self._said: set[str] = set()
        self.on_node: bool = getattr(workflow, "remote_exec", False)
        if self.on_node:
            self._need(submissions.SIDE_BY_SIDE)
            submissions.leave_marks()
            return
        if not self._problem:
            executors.subclass(self._notes)
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
        if not self._problem:
            for resource, number in stages.items():
                self._workflow.register_resource(resource, number)

    def name_group(self, group: str, known_as: str) -> None:
        """Set the name by which `group-components` of a profile refers to a group that a function returns."""
        if not self._problem:
            self._workflow.parent_groupids[group] = known_as

    def start(self) -> None:
        """Prepare a run before its first job. Raises WorkflowError if the run would not be safe."""
        try:
            if self.submits:
                self._start_submitting()
            else:
                orphans.refuse()
                self._say("local")
                if not self._problem:
                    scheduler.lift(self._workflow.scheduler)
        except orphans.StillRunning as problem:
            raise WorkflowError(str(problem)) from problem

    def stop_after(self, problem: Callable[[Sequence[str]], str]) -> None:
        """End the run after the first job for whose outputs `problem` returns a message."""
        self._say("asked")
        if not self._problem:
            self._logger.addHandler(scheduler.Stopping(self._workflow.scheduler, problem))

    def end(self) -> None:
        """Clean up after the last job of a run."""
        self._notes.end()

    def _start_submitting(self) -> None:
        workflow, executor = self._workflow, self._workflow.executor_plugin.name
        for needed in PATCHES:
            if needed.runs == "cluster":
                self._need(needed)
        scheduler.calm(workflow.scheduler)
        # Not the cores of this machine. Snakemake evaluates the resources of a job again before it starts the
        # job, so this is early enough, and which executor it uses is not known any earlier.
        workflow.global_resources["_cores"] = None
        attempts = 1 + workflow.execution_settings.retries
        if attempts < ATTEMPTS:
            raise WorkflowError(
                f"each job has {attempts} attempt(s), but a stage gets all that its limits allow"
                f" only in attempt {ATTEMPTS}: set retries: {ATTEMPTS - 1} or more in the profile"
            )
        if problem := submissions.accounting_problem(workflow.executor_settings):
            raise WorkflowError(problem)
        if problem := self._notes.problem(executor):
            raise WorkflowError(problem)
        orphans.refuse_beside(executor, workflow.executor_settings)
        self._notes.begin()

    def _need(self, needed: Patch) -> None:
        """Raise WorkflowError if a patch that a run on a cluster needs is switched off."""
        if self._problem:
            raise WorkflowError(
                f"{needed.name}: {self._problem}. A run on a cluster is not safe without this patch: "
                f"{needed.without}. Install snakemake{VERSION} (requirements.txt), or run on "
                "one machine."
            )

    def _say(self, runs: str) -> None:
        """Warn once about each patch that is switched off."""
        if not self._problem or runs in self._said:
            return
        self._said.add(runs)
        for off in PATCHES:
            if off.runs == runs:
                self._logger.warning(
                    f"switched off: {off.name} ({self._problem}). Without it, {off.without}."
                )
