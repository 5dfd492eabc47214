"""The plan of a run, the supervisor's command line, and the start and end of a run. There is no rule here."""

import functools
import os
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

# Snakemake has put the folder of the Snakefile on sys.path.
from scripts.core import checkout
from scripts.core.console import Console
from scripts.tools import registry
from scripts.config import cell, settings
from scripts.run import environments, job_arguments, jobs, outputs, progress, starting
from scripts.run.jobs import artifact, beside_outputs, of_cell
from scripts.run.snakemake import terminal
from scripts.run.snakemake.apply import Patches

IS_MODULE = not any(
    os.path.samefile(workflow.basedir, folder)
    for folder in (checkout.ROOT, checkout.ROOT / "workflow")
)
terminal.protect(logger)
registry.load()
WITH_CONDA = "conda" in map(str, workflow.deployment_settings.deployment_method)

if WITH_CONDA and not checkout.is_here():
    _place = "a clone of vmfbench" if checkout.INSTALLED else checkout.ROOT
    raise WorkflowError(
        f"--sdm conda works in {_place} alone, the folder of the Snakefile (this is {Path.cwd()}): "
        "Snakemake runs envs/<env>.post-deploy.sh in the working folder, and it installs envs/<env>.lock"
    )

try:
    _own = checkout.path("config.yaml")
    # In a module, the importing Snakefile gives the configuration; the command line belongs to it.
    _declared, _selections = (
        settings.load(config, [_own], checkout.ROOT, Path.cwd())
        if IS_MODULE
        else settings.read(workflow.config_settings, _own, Path(workflow.rundir))
    )
    RUN = starting.of_configuration(_declared, _selections, WITH_CONDA)
except settings.ConfigError as problem:
    terminal.refuse(f"configuration:\n{problem}")

MATRIX, PLAN, GATE = RUN.matrix, RUN.plan, RUN.gate
run_log = progress.RunLog()
watched = progress.Live(
    Console(stderr=True, highlight=False),
    may_make_good=PLAN.modules.may_make_good,
    budget_s=PLAN.groups.budget_s(),
)
job_events = terminal.Jobs(logger, watched)
patches = Patches(workflow, logger)

if not patches.on_node:
    for problem in starting.warnings(RUN):
        logger.warning(problem)
    for absent in [] if patches.may_submit else starting.absent_devices(MATRIX):
        logger.warning(absent)
    if problems := starting.problems(RUN, patches.may_submit):
        terminal.refuse("configuration:\n" + "\n".join(problems))


wildcard_constraints:
    **cell.CONSTRAINTS,


resource_scopes:
    building="local",
    measuring="local",


# In one submission, a few builds run at a time, and one measurement.
patches.side_by_side(building=jobs.BUILDING, measuring=1)
JOBS = jobs.Jobs(PLAN, patches, workflow.cores, ancient)
# On a cluster, jobs for all devices run at a time.
RUN_HAS_CPU_FIRST = JOBS.all_here and PLAN.aggregation.has_cpu_first()

# The words before `python -m scripts.…` in a folder that is not the checkout.
PREFIX = job_arguments.prefix()
DRIVER = shlex.quote(sys.executable)
supervised = functools.partial(
    job_arguments.in_rule, owner=os.getpid(), more_attempts=patches.may_submit
)
requested = functools.partial(supervised, "scripts.stages.supervise")
tuned_by = functools.partial(supervised, "scripts.tools.variants.tune_iree")
of_batch = functools.partial(
    supervised, "scripts.tools.operators.supervise_batch", retry=PLAN.retry
)


def aggregated(*options):
    """The command that writes a set of results. Its errors go to the terminal too: on a full disk, there is no log."""
    words = ("-m scripts.stages.aggregate_results", *options, "--due {params.due}")
    return f"{PREFIX}{{params.python}} {' '.join(words)} 2>&1 | tee {{log:q}}"


def start_run():
    """Start a run: take its lock, print progress lines, and deal with the jobs of earlier runs."""
    try:
        run_log.start(
            MATRIX,
            (
                None
                if IS_MODULE
                else settings.to_json(workflow.config_settings, workflow.rundir)
            ),
        )
    except OSError as problem:
        raise WorkflowError(f"nothing was run: {problem}; results/ has to be writable")
    watched.start()
    job_events.after("aggregate_cpu", show_cpu)
    job_events.follow()
    patches.start()
    if JOBS.all_here:
        watched.idle(patches.jobs_in(starting.idle_cells(MATRIX)))
    if RUN_HAS_CPU_FIRST:
        patches.hold_back(PLAN.is_after_cpu)
    if GATE.wanted:
        job_events.after_each(patches.stopping(GATE.finished))


def show_cpu():
    """Print the table of the CPU, while the run goes on."""
    from scripts.results import screen

    watched.aside()
    screen.show_cpu()


def end_run():
    """End a run: print its results, and forget submitted jobs if all have ended."""
    watched.end()
    if run_log.started:
        # Import here, because `snakemake -n` and jobs on nodes do not need these modules.
        from scripts.results import screen

        screen.show(progress.JOURNAL, run_log.now(), run_log.before)
    patches.end()


def check_gate():
    """End a run with exit code 1 if a row has a status or code that `stop_on` names."""
    if problem := GATE.problem():
        raise WorkflowError(problem)
