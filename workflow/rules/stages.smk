"""Inputs and params that the rules of all stages share. scripts/matrix/stages.py declares stages."""

import inspect

from scripts.matrix import cell
from scripts.matrix.stages import STAGES

_WILDCARDS = inspect.Parameter("wildcards", inspect.Parameter.POSITIONAL_ONLY)
_OF_WILDCARDS = inspect.Signature([_WILDCARDS])


def of_cell(answer):
    """A function of a job's wildcards, for an input or a param.

    It has an explicit signature: Snakemake asks for the signature several times per call, and
    inspecting the code takes longer than most of these functions.
    """

    def asked(wildcards):
        return answer(wildcards)

    asked.__signature__ = _OF_WILDCARDS
    return asked


def artifact(stage, file=""):
    """The path of a stage's file with wildcards: results/<stage>/<cell>/<file>.

    Without `file`, the folder.
    """
    return STAGES[stage].pattern(file)


def beside_outputs(stage, file):
    """The path of a file that a stage leaves beside its outputs, for its command line.

    It is no output and no param: results from before there was such a file stay finished.
    """
    return artifact(stage, file).replace("{", "{wildcards.").replace("}", ":q}")


def per_env(stage, answer):
    """A param that depends only on the environment: a value if all cells of a stage have the same
    environment, else a function of the cell."""
    return answer(None) if PLAN.has_one_env(stage) else of_cell(answer)


def environment(stage):
    """The environment of a stage, as inputs.

    Making an environment again (because it was deleted or moved) must not invalidate results, so a cell
    that succeeded ignores its age. New pins are a param. But Snakemake does not compare the params of a
    job that follows a job which will run, so if this run makes the environment from new pins, the age
    counts.
    """

    def status(w):
        made = PLAN.env_status(stage, w)
        stands = PLAN.ended_well(stage, w) and PLAN.env_is_of_pins(stage, w)
        return ancient(made) if stands else made

    return {
        "packages": per_env(stage, lambda w: ancient(PLAN.env_packages(stage, w))),
        "env": of_cell(status),
    }


def model_files():
    """The file of a model and the files that it imports, as inputs."""
    return {
        "model_file": of_cell(lambda w: PLAN.model(w).file),
        "model_parts": of_cell(PLAN.model_parts),
    }


def compared_with():
    """The weights, inputs and golden results of a baseline, as inputs."""
    return {
        "before": of_cell(lambda w: PLAN.golden(w, "status.json")),
        "golden": of_cell(lambda w: PLAN.golden(w, "golden.npz")),
        "signature": of_cell(lambda w: PLAN.golden(w, "signature.json")),
        "weights": artifact("reference", "weights.irpa"),
        "inputs": artifact("reference", "inputs.npz"),
    }


REFERENCE_FILES = {
    "weights": "weights.irpa",
    "inputs": "inputs.npz",
    "golden": "golden.npz",
    "signature": "signature.json",
}


def started_from(*names):
    """What an IREE cell's test starts from and is compared with, as inputs: all of REFERENCE_FILES, or those of
    these names."""
    return {
        name: of_cell(lambda w, file=REFERENCE_FILES[name]: PLAN.reference(w, file))
        for name in names or REFERENCE_FILES
    }


def batch_of_problems(*before):
    """The problems of a batch, and their outcomes in the stages `before`, as inputs."""
    found = {"batch": "results/operators/batches/{batch}.jsonl"}
    if before:
        found["before"] = [artifact(stage, "outcomes.jsonl") for stage in before]
        found["upstream"] = [artifact(stage, "status.json") for stage in before]
    return found


def compiled():
    """The module of a cell and the status of what made it, as inputs.

    A cell that remedies take part in has two modules, of which the one that was not made is empty. The
    verification of a module that compiled as asked ignores the age of what its remedies left. The rows of
    results/tuned.csv have the modules of their tuning.
    """

    def made(w, file):
        asked, *remedied = PLAN.maker.modules(w, file)
        stands = PLAN.maker.stand(w)
        return [asked, *(ancient(f) if stands else f for f in remedied)]

    return {
        "vmfb": of_cell(lambda w: made(w, "module.vmfb")),
        "before": of_cell(lambda w: made(w, "status.json")[-1]),
    }


def stage_params(stage):
    """The params of every stage: its name and cell, its Python, and what makes it run again."""
    declared = STAGES[stage]
    # A function for "env", because Snakemake's linter mistakes that text for a path.
    is_env = declared.kind is cell.Kind.ENV
    params = {
        "stage": of_cell(lambda w: "env") if is_env else declared.folder,
        "cell": cell.shape(declared.kind).pattern,
        "due": of_cell(lambda w: PLAN.due(stage, w)),
    }
    if declared.skipped:
        params["skip"] = of_cell(lambda w: PLAN.skip(stage, w))
    if not is_env:
        params["python"] = per_env(stage, lambda w: PLAN.python(stage, w))
        params["pins"] = per_env(stage, lambda w: PLAN.pins(stage, w))
    return params
