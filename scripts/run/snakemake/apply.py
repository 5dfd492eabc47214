"""Applies the patches of Snakemake that a run needs, or warns that they are switched off.

Each says in its docstring what it is for; tests/unit/test_patches.py lists what they use of Snakemake.
"""

from __future__ import annotations

import logging
import shutil
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import snakemake.api  # its other modules cannot be imported before this one
from packaging.specifiers import SpecifierSet
from snakemake_interface_common.exceptions import WorkflowError

from scripts.config import cell
from scripts.config.cell import Cell
from scripts.core import process
from scripts.run.resources import ATTEMPTS
from scripts.run.snakemake import executors

VERSION = "==9.27.*"
"""The Snakemake that the patches are written for and tested with."""


def problem() -> str:
    """Why patches cannot be applied to this Snakemake; "" if they can."""
    version = snakemake.__version__
    if SpecifierSet(VERSION).contains(version, prereleases=True):
        return ""
    return f"it is written for Snakemake {VERSION}, this is {version}"


class Patches:
    """The patches of one run, and all questions to Snakemake's internals.

    `workflow` and `logger` are those of the Snakefile. The constructor applies what is needed before the rules are
    read, and `start` the rest. Raises WorkflowError on a cluster node if a stage would not be safe without a patch.
    """

    def __init__(self, workflow: Any, logger: logging.Logger) -> None:
        self._workflow = workflow
        self._logger = logger
        self._problem = problem()
        self._notes = executors.Notes()
        self.on_node: bool = getattr(workflow, "remote_exec", False)
        if self.on_node:
            self._refuse_cluster()
            leave_marks()
            return
        if not self._problem:
            executors.subclass(self._notes)
        else:
            logger.warning(
                f"switched off: no limit on job starts ({self._problem}). Without it, after some hundred jobs the "
                "scheduler uses up to a quarter of a core during measurements, and rows on the CPU do not come first."
            )

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
                executors.refuse()
                if not self._problem:
                    # The number of cores limits the jobs. After 150 jobs, timers of the limit on job starts (see `calm`) take a
                    # quarter of a core, also during measurements.
                    self._workflow.scheduler.job_rate_limiter = None
        except executors.StillRunning as problem:
            raise WorkflowError(str(problem)) from problem

    def stopping(
        self, problem: Callable[[Sequence[str]], str]
    ) -> Callable[[Sequence[str]], object]:
        """What to call with the outputs of each finished job, to end the run after the first one for which `problem` returns a message."""
        if not self._problem:
            return stop_after(self._workflow.scheduler, problem)
        self._logger.warning(
            f"switched off: stop after a row ({self._problem}). Without it, a run with `stop_on` goes on to its "
            "end, and has exit code 1 there."
        )
        return lambda outputs: None

    def hold_back(self, is_later: Callable[[str, Mapping[str, str]], bool]) -> None:
        """Start jobs for which `is_later` holds after all others. Call it after `start`."""
        if not self._problem:
            hold_back(self._workflow.scheduler, is_later)

    def jobs_in(self, cells: Collection[tuple[str, Cell]]) -> Iterator[str]:
        """The rules of the jobs to run that are among `cells` (rule, cell), once per job; none with another Snakemake. Call it after
        `start`."""
        rules = {rule for rule, _ in cells}  # the jobs of others may have no cell
        for job in () if self._problem else self._workflow.dag.needrun_jobs():
            rule = job.rule.name
            if rule in rules and (rule, cell.of_wildcards(job.wildcards)) in cells:
                yield rule

    def end(self) -> None:
        """Clean up after the last job of a run."""
        self._notes.end()

    def _start_submitting(self) -> None:
        workflow, executor = self._workflow, self._workflow.executor_plugin.name
        self._refuse_cluster()
        calm(workflow.scheduler)
        # Not the cores of this machine. Snakemake evaluates the resources of a job again before it starts the
        # job, so this is early enough, and which executor it uses is not known any earlier.
        workflow.global_resources["_cores"] = None
        attempts = 1 + workflow.execution_settings.retries
        if attempts < ATTEMPTS:
            raise WorkflowError(
                f"each job has {attempts} attempt(s), but a stage gets all that its limits allow"
                f" only in attempt {ATTEMPTS}: set retries: {ATTEMPTS - 1} or more in the profile"
            )
        if problem := accounting_problem(workflow.executor_settings):
            raise WorkflowError(problem)
        if problem := self._notes.problem(executor):
            raise WorkflowError(problem)
        executors.refuse_beside(executor, workflow.executor_settings)
        self._notes.begin()

    def _refuse_cluster(self) -> None:
        """Raise WorkflowError if patches are switched off, without which a run on a cluster is not safe."""
        if self._problem:
            raise WorkflowError(
                f"patches of Snakemake: {self._problem}. A run on a cluster is not safe without them: measurements may "
                "disturb each other, and after a killed run, jobs write the same files or leave outcomes of another "
                f"configuration. Install snakemake{VERSION} (requirements.txt), or run on one machine."
            )


def leave_marks() -> None:
    """On a node, leave outputs marked as incomplete until the submitting Snakemake sees the end of their job.

    That Snakemake then records params and inputs, and removes the mark. If it was killed, Snakemake 9.27 would take
    outputs without mark and record as complete, and never compare their params again. With the mark, the next run
    repeats their jobs (`rerun-incomplete` of the default profile).
    """
    from snakemake.persistence import PersistenceBase

    async def finished(self: Any, job: Any) -> None:
        pass

    PersistenceBase.finished = finished


def accounting_problem(settings: Any) -> str:
    """What is wrong with Slurm's accounting, from which Snakemake's executor with these `settings` reads the state of its jobs; "" if
    nothing is. If sacct fails (most often because the site keeps no accounting), the executor waits without a message."""
    command = getattr(settings, "status_command", None)
    if command != "sacct" or not shutil.which(command):
        return ""
    query = [command, "--allocations", "--noheader", "--format=JobID"]
    ended = process.captured(query)
    if not ended.returncode:
        return ""
    return (
        f"{' '.join(query)}: exit code {ended.returncode}: {ended.stderr.strip()}; where Slurm keeps "
        "no accounting, set `slurm-status-command: squeue` in workflow/profiles/slurm/profile.yaml"
    )


def calm(scheduler: Any) -> None:
    """Allow one timer at a time, and none if no job was started within a timespan. `scheduler`: a JobScheduler before it schedules.

    Snakemake 9.27 starts a timer in each pass of its scheduler for its limit on job starts (`--max-jobs-per-timespan`), and each
    timer causes another pass. Every job that ends adds a timer (the loop of snakemake/snakemake#3744). With hundreds of jobs ready,
    each pass examines the inputs of a hundred of them, and the submitting Snakemake is always busy. The method that the scheduler
    calls in each pass, from one thread, is replaced.
    """
    limiter = scheduler.job_rate_limiter
    if limiter is None:
        return
    armed = threading.Event()

    def wake() -> None:
        armed.clear()  # before the pass, which may have to arm the next one
        scheduler._open_jobs.release()

    def reevaluate(delay: float) -> None:
        # The starts as the pass has left them, without removing old ones: a start that held a job
        # back in this pass and has become too old must still cause another pass.
        if limiter._jobs and not armed.is_set():
            armed.set()
            timer = threading.Timer(delay, wake)
            timer.daemon = True
            timer.start()

    scheduler._schedule_reevalutation = reevaluate


def hold_back(scheduler: Any, is_later: Callable[[str, Mapping[str, str]], bool]) -> None:
    """Start the jobs for which `is_later` holds (the name of their rule, their wildcards) while no other job is ready or runs. With
    lower priorities, they would take each core that becomes free before a job that needs all cores."""
    select = scheduler._job_selector

    def waits(job: Any) -> bool:
        return is_later(job.rule.name, dict(job.wildcards.items()))

    def select_of_first_part(jobs: Iterable[Any], *others: Any) -> Any:
        first = [job for job in jobs if not waits(job)]
        if first or not all(map(waits, scheduler.running)):
            return select(first, *others) if first else []
        return select(jobs, *others)

    scheduler._job_selector = select_of_first_part


def stop_after(
    scheduler: Any, problem: Callable[[Sequence[str]], str]
) -> Callable[[Sequence[str]], object]:
    """See Patches.stopping: no further job starts, and running jobs may finish.

    Snakemake does this when it receives a SIGTERM. If the signal were sent from here, its handler would wait for a
    lock that the scheduler holds while it reports a finished job. So the handler's variable is set directly.
    """

    def look(outputs: Sequence[str]) -> None:
        if scheduler._user_kill or not (message := problem(outputs)):
            return
        scheduler._user_kill = "graceful"
        print(
            f"stopping (stop_on): {message}\nNo further job starts, and no CSV is written. The same line goes on "
            "from here; without stop_on= it goes on to the CSV.",
            file=sys.stderr,
            flush=True,
        )

    return look
