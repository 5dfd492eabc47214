"""Resources of jobs on this machine, requests to a cluster, and the groups of one submission."""

import dataclasses

from scripts.matrix import threads as number_of_threads
from scripts.run import resources as job_resources

# In one submission, four builds run at a time, and one measurement.
BUILDING = 4
patches.side_by_side(building=BUILDING, measuring=1)


resource_scopes:
    building="local",
    measuring="local",


def submits():
    """Whether this process submits its jobs to a cluster."""
    return patches.submits


def submitted():
    """Whether a job will be submitted to a cluster, or runs on one."""
    return patches.submits or patches.on_node


# If no job can go to a cluster, threads and resources are values. Snakemake calls each function for
# each job, which for a large matrix takes a third of the time of `snakemake -n`.
ALL_HERE = not patches.may_submit


def slot_threads():
    """Threads of a job that shares the machine: `--cores` divided by the jobs that it can run."""
    here = job_resources.slot_threads(workflow.cores)
    return here if ALL_HERE else lambda w: job_resources.CPUS if submits() else here


# The options by which a stage loads its model. OpenMP's threads spin while they wait: two models that
# load at the same time with all cores take three times the CPU time.
LOAD_MODEL = (
    " --name {wildcards.model:q} --model-file {input.model_file:q}"
    f" --load-threads {job_resources.threads_beside(workflow.cores)}"
)


def all_threads():
    """Threads of a job that times something: all, so that nothing else runs on the machine."""
    here = workflow.cores or 1
    if ALL_HERE:
        return here

    def of(wildcards):
        if submits():
            return number_of_threads.most(MATRIX.measure, otherwise=1)
        return here

    return of


def asks(stage):
    """Resources of a stage: its limits, and what its job requests from a cluster's scheduler."""
    if ALL_HERE:
        asked = dataclasses.asdict(PLAN.within_limits(stage))
        return preloads(stage) | {
            key: value for key, value in asked.items() if not key.startswith("more_")
        }

    def of(field):
        return lambda w, attempt: getattr(
            PLAN.ask(stage, w, attempt, submitted()), field
        )

    return preloads(stage) | {
        field.name: of(field.name) for field in dataclasses.fields(job_resources.Ask)
    }


def preloads(stage):
    """Whether a stage is forked. It is a resource, because a changed resource re-runs nothing.

    On a cluster no stage is forked: few stages of a submission share an environment.
    """
    if ALL_HERE and (same := PLAN.forked_alike(stage)) is not None:
        return {"preload": int(same)}
    return {"preload": lambda w: int(not submitted() and PLAN.forked(stage, w))}


def beside_others():
    """Resources of a stage that shares its machine with a few others in one submission."""
    if ALL_HERE:
        return {}
    return {
        "cpus_per_task": lambda w: job_resources.CPUS if submitted() else None,
        "building": lambda w: 1 if submitted() else None,
    }


def verified_on(entry_of):
    """Resources of a verification, on the kind of node of its target or baseline.

    Snakemake adds up what the jobs of a submission ask for that run at a time. So those that ask for
    a device run one after the other: three of them would ask for three devices.
    """
    if ALL_HERE:
        return {}

    def building(wildcards):
        alone = {"gpu", "gres"} & PLAN.node(entry_of(wildcards)).keys()
        return (BUILDING if alone else 1) if submitted() else None

    return on_node(entry_of) | beside_others() | {"building": building}


def together(group):
    """The group of a rule's jobs, which form one submission. None if nothing is submitted."""
    return None if ALL_HERE else group


def group_on(what, node):
    """The group of jobs on a kind of node. In profiles its name is verify-{node} or measure-{node}.

    Verifications share their node and measurements do not, so the two ask for it differently.
    """
    patches.name_group(f"{what}-{node}", known_as=what + "-{node}")
    return f"{what}-{node}"


def on_node(entry_of):
    """Resources of a stage on the kind of node of its target or baseline."""
    if ALL_HERE:
        return {}

    def of(key):
        return lambda w: PLAN.node(entry_of(w)).get(key) if submitted() else None

    return {
        key: of(key) for key in sorted({k for n in MATRIX.nodes.values() for k in n})
    }


def alone_on(entry_of):
    """Resources of a measurement: its kind of node, and one at a time in one submission.

    With -1, Snakemake's Slurm executor requests no number of cores; with `--exclusive`, all of them.
    """
    if ALL_HERE:
        return {}
    return on_node(entry_of) | {
        "cpus_per_task": lambda w: -1 if submitted() else None,
        "measuring": lambda w: 1 if submitted() else None,
    }
