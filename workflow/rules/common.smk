"""The matrix, and what every rule asks of it. No rule stands here."""

import os
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

sys.path.insert(0, str(workflow.basedir))

from scripts.lib import (
    environments,
    expansion,
    limits,
    matrix,
    plan,
    progress,
    settings,
)

if Path.cwd() != Path(workflow.basedir):
    raise WorkflowError(
        f"run snakemake in {workflow.basedir}, the folder of the Snakefile (this is {Path.cwd()})"
    )

try:
    _declared, _selections = settings.load(config, workflow.configfiles)
    MATRIX = expansion.expand(_declared, _selections, Path(workflow.basedir))
    PLAN = plan.Plan(
        MATRIX,
        retry=plan.parse_retry(_declared.get("retry")),
        with_conda="conda" in map(str, workflow.deployment_settings.deployment_method),
    )
except settings.ConfigError as problem:
    raise WorkflowError(f"configuration:\n{problem}")

run_log = progress.RunLog()


wildcard_constraints:
    model="[^/]+",
    frontend="[^/]+",
    target="[^/]+",
    baseline="[^/]+",
    test="eval|train",
    env="[^/]+",


# Every stage is a command line under the one supervisor. `exec`, so that the supervisor's
# parent is Snakemake itself and it notices when that is killed.
DRIVER = shlex.quote(sys.executable)
SUPERVISE = (
    f"exec {DRIVER} -m scripts.supervise"
    " --stage {params.stage} --cell {params.cell:q}"
    " --status {output.status:q} --log {log:q}"
    " --timeout {resources.timeout_s} --memory {resources.mem_mb}"
    " --due {params.due:q} --journal results/logs/journal.jsonl"
    f" --owner {os.getpid()}"
)


# Threads of one job beside others: `--cores` shared over what the machine can bear.
SLOT_THREADS = limits.slot_threads(workflow.cores)
# Threads of a job beside which nothing else may run.
ALL_THREADS = workflow.cores or 1


def env_of(env, stage, cell):
    """The status of a stage's environment, as an input.

    An environment that is made again (deleted, or moved) does not undo what was done in it,
    so a cell that ended well does not look at its age; new pins reach it as a param.
    """
    status = PLAN.env_status(env)
    return ancient(status) if PLAN.ended_well(stage, cell) else status


def start_run():
    """What a run does first: its lock, its progress lines, and a scheduler that can wait."""
    run_log.start(MATRIX, logger)
    # Snakemake 9.27's limiter of job starts (100 a second by default, no way to say none) arms
    # one more timer at each pass of the scheduler and never fewer: after 150 jobs the scheduler
    # takes a quarter of a core, beside our measurements (the loop of snakemake/snakemake#3744).
    # Local jobs need no such limit.
    if workflow.local_exec:
        workflow.scheduler.job_rate_limiter = None
