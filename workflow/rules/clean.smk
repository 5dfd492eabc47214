"""`snakemake clean_dumps`, `clean_weights`, `clean_envs`: free disk space in steps.

docs/disk.md lists the files that each of them deletes, and how they are made again. Each is a run,
and the lock of the run excludes other runs in this folder.
"""

# The models and kernels that the command line selects; "" selects all.
CLEANED = " ".join(
    name
    for kind, part in (("models", MATRIX), *MATRIX.parts.items())
    if kind in _selections
    for name in part.models
)


rule clean_dumps:
    """Delete dumps and profiles; `snakemake dumps` and `snakemake profile` write them again."""
    log:
        "results/logs/clean_dumps.txt",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        python=PLAN.report_python(),
        step="dumps",
        models=CLEANED,
    shell:
        f"{PREFIX}"
        "{params.python} -m scripts.stages.clean {params.step} --models {params.models}"
        " 2>&1 | tee {log:q}"


use rule clean_dumps as clean_weights with:
    """Delete weights, inputs and golden outputs; the next run of a model makes them again."""
    log:
        "results/logs/clean_weights.txt",
    params:
        step="weights",


use rule clean_dumps as clean_envs with:
    """Delete the environments of the stages; the next run installs those that it needs."""
    log:
        "results/logs/clean_envs.txt",
    params:
        step="envs",
