"""The matrix, the supervisor's command line, and the start and end of a run. There is no rule here."""

import os
import shlex
import sys
from pathlib import Path

from rich.console import Console
from snakemake.exceptions import WorkflowError

# Snakemake has put the folder of the Snakefile on sys.path.
from scripts import snakemake as snakemake_patches
from scripts.features import registry
from scripts.matrix import cell, expansion, feature, settings
from scripts.matrix.toolchains import PINNED
from scripts.core import checkout
from scripts.run import environments, gate, live, outputs, plan, progress
from scripts.snakemake import terminal

IS_MODULE = not os.path.samefile(workflow.basedir, checkout.ROOT)
registry.load()
WITH_CONDA = "conda" in map(str, workflow.deployment_settings.deployment_method)

if WITH_CONDA and not checkout.is_here():
    raise WorkflowError(
        f"--sdm conda works in {checkout.ROOT} alone, the folder of the Snakefile (this is {Path.cwd()}): "
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
    MATRIX = expansion.expand(_declared, _selections, checkout.ROOT)
    if not checkout.is_here():
        MATRIX = expansion.with_absolute_paths(MATRIX, checkout.ROOT)
    if WITH_CONDA and (further := [n for n in MATRIX.toolchains if n != PINNED]):
        raise settings.ConfigError(
            f"toolchains: {further[0]} needs an environment that uv makes; leave --sdm conda out"
        )
    MATRIX, notes = feature.adjusted(MATRIX)
    PLAN = plan.Plan(
        MATRIX,
        retry=plan.parse_retry(_declared.get("retry")),
        with_conda=WITH_CONDA,
    )
    GATE = gate.Gate(_declared.get("stop_on"), PLAN.maker.may_make_good)
except settings.ConfigError as problem:
    raise WorkflowError(f"configuration:\n{problem}")

run_log = progress.RunLog()
watched = live.Live(Console(stderr=True, highlight=False))
job_events = terminal.Jobs(logger, watched)
patches = snakemake_patches.Patches(workflow, logger)

# A node would decide again, by its own CPU, which tuning results are used.
if patches.may_submit and (
    tuned := [t.name for t in MATRIX.targets.values() if t.tuned]
):
    raise WorkflowError(
        f"configuration:\ntargets.{tuned[0]}.tuned: auto is for runs on one machine; leave it out where jobs may go to a cluster"
    )

if not patches.on_node:
    for problem in PLAN.broken_models():
        logger.warning(f"{problem}: its rows will be errors of stage reference")
    for problem in (*notes, *PLAN.environments.notes()):
        logger.warning(problem)
    if not WITH_CONDA and (problems := feature.problems(MATRIX)):
        raise WorkflowError("configuration:\n" + "\n".join(problems))
    for files in (outputs.FILES, *outputs.of_features()):
        for problem in filter(None, map(outputs.difference, files)):
            logger.warning(f"{problem}; it is made again with {files[0]}")


wildcard_constraints:
    **cell.constraints(),


# Every stage is a command line that the supervisor runs. With `exec`, the supervisor's parent is
# Snakemake itself, so it notices when Snakemake is killed.
DRIVER = shlex.quote(sys.executable)
# The words before `python -m scripts.…` in a folder that is not the checkout.
PREFIX = "".join(f"{shlex.quote(word)} " for word in checkout.prefix())
PREFIX = PREFIX.replace("{", "{{").replace("}", "}}")
OF_JOB = (
    " --stage {params.stage} --cell {params.cell:q}"
    " --status {output.status:q} --log {log:q}"
    " --timeout {resources.timeout_s} --memory {resources.memory_mb}"
    " --preload {resources.preload}"
    " --due {params.due:q} --journal results/logs/journal.jsonl"
    f" --owner {os.getpid()}"
    # Only on a cluster are there further attempts with larger limits.
    + (
        " --more-time {resources.more_time} --more-memory {resources.more_memory}"
        if patches.may_submit
        else ""
    )
)
SUPERVISE = f"exec {PREFIX}{DRIVER} -m scripts.stages.supervise{OF_JOB}"

# The same for a batch of operator problems. The statuses to retry are not a param: `due` requests the
# run, and they select problems of it.
OF_BATCH = (
    f"{OF_JOB} --problems {{input.batch:q}} --pins {{params.pins}}"
    f" --retry '{','.join(sorted(PLAN.retry))}'"
)
SUPERVISE_BATCH = f"exec {PREFIX}{DRIVER} -m scripts.stages.supervise_batch{OF_BATCH}"
SUPERVISE_COMPILING = (
    f"exec {PREFIX}{DRIVER} -m scripts.stages.compile_operators{OF_BATCH}"
)
SUPERVISE_TIMING = f"exec {PREFIX}{DRIVER} -m scripts.stages.time_group{OF_JOB}"
SUPERVISE_TIMING_BATCH = (
    f"exec {PREFIX}{DRIVER} -m scripts.stages.time_operators{OF_BATCH}"
)
SUPERVISE_TUNING = f"exec {PREFIX}{DRIVER} -m scripts.stages.tune_iree{OF_JOB}"


def start_run():
    """Start a run: take its lock, print progress lines, and deal with the jobs of earlier runs."""
    try:
        run_log.start(MATRIX)
    except OSError as problem:
        raise WorkflowError(f"nothing was run: {problem}; results/ has to be writable")
    watched.start(progress.JOURNAL)
    job_events.follow()
    patches.start()
    if GATE.wanted:
        patches.stop_after(GATE.finished)


def end_run():
    """End a run: print its results, and forget submitted jobs if all have ended."""
    watched.end()
    if run_log.started:
        # Import here, because `snakemake -n` and jobs on nodes do not need these modules.
        from scripts.records import summary

        summary.show(progress.JOURNAL)
    patches.end()


def check_gate():
    """End a run with exit code 1 if a row has a status or code that `stop_on` names."""
    if problem := GATE.problem():
        raise WorkflowError(problem)
