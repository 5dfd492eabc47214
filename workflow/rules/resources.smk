"""What a job may use on this machine, what it asks a cluster for, and what goes in one submission."""

import dataclasses

from scripts.lib.driver import resources as job_resources

# Stages of one submission that run side by side, and measurements: one at a time.
patches.side_by_side(building=4, measuring=1)


resource_scopes:
    building="local",
    measuring="local",


def submits():
    """Whether this process hands its jobs to a cluster."""
    return patches.submits


def submitted():
    """Whether a job is asked for, or runs, on a cluster."""
    return patches.submits or patches.on_node


# Where no job can go to a cluster, threads and resources are values: Snakemake calls each function
# for each job, which of a large matrix is a third of the time of `snakemake -n`.
ALL_HERE = not patches.may_submit


def slot_threads():
    """Threads of one job beside others: `--cores` shared over what the machine can bear."""
    here = patches.jobs_per_slot * job_resources.slot_threads(workflow.cores)
    return here if ALL_HERE else lambda w: job_resources.CPUS if submits() else here


def measuring_threads():
    """Threads of a job that is timed while nothing else runs on the machine.

    On this machine it prepares beside others, and its supervisor sees to it that it is alone then.
    """
    here = job_resources.slot_threads(workflow.cores)
    if ALL_HERE:
        return here

    def of(wildcards):
        if submits():
            return MATRIX.measure.get("threads", 1)
        return (workflow.cores or 1) if patches.on_node else here

    return of


def second_round_threads():
    """Threads of a measurement that is to come after all else on this machine.

    As many as of a job beside others: what is less would fit where no export does, and start before
    it whatever its priority.
    """
    return slot_threads() if ALL_HERE else measuring_threads()


def asks(stage):
    """Resources of a stage: what holds it, and what its job asks of a cluster's scheduler."""
    if ALL_HERE:
        asked = dataclasses.asdict(PLAN.within_limits(stage))
        return preloads(stage) | {
            key: value for key, value in asked.items() if not key.startswith("more_")
        }

    def of(field):
        return lambda w, attempt: getattr(
            PLAN.ask(stage, w.model, attempt, submitted()), field
        )

    return preloads(stage) | {
        field.name: of(field.name) for field in dataclasses.fields(job_resources.Ask)
    }


def preloads(stage):
    """Whether a stage is forked: a resource, as nothing runs again for another value.

    Few stages of a submission to a cluster share an environment.
    """
    if ALL_HERE and (same := PLAN.forked_alike(stage)) is not None:
        return {"preload": int(same)}
    return {"preload": lambda w: int(not submitted() and PLAN.forked(stage, w))}


def beside_others():
    """Resources of a stage that shares its machine, a few at a time in one submission."""
    if ALL_HERE:
        return {}
    return {
        "cpus_per_task": lambda w: job_resources.CPUS if submitted() else None,
        "building": lambda w: 1 if submitted() else None,
    }


def together(group):
    """The group of a rule's jobs: what goes in one submission. None where nothing is submitted."""
    return None if ALL_HERE else group


def measured_on(node):
    """The group of measurements on a kind of node, which profiles know as measure-{node}."""
    patches.name_group(f"measure-{node}", known_as="measure-{node}")
    return f"measure-{node}"


def on_node(entry_of):
    """Resources of a stage on the kind of node that its target or baseline names."""
    if ALL_HERE:
        return {}

    def of(key):
        return lambda w: PLAN.node(entry_of(w)).get(key) if submitted() else None

    return {
        key: of(key) for key in sorted({k for n in MATRIX.nodes.values() for k in n})
    }


def alone_on(entry_of):
    """Resources of a measurement: its kind of node, and one at a time in one submission.

    With -1, Snakemake's Slurm executor asks for no number of cores: with `--exclusive`, for all.
    """
    if ALL_HERE:
        return {}
    return on_node(entry_of) | {
        "cpus_per_task": lambda w: -1 if submitted() else None,
        "measuring": lambda w: 1 if submitted() else None,
    }
