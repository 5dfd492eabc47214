"""The environments of the stages without conda: `.venvs/<env>/`, made by uv from envs/<env>.lock.

`.venvs/<env>@<toolchain>/` is made from the same file and what the toolchain changes. scripts/core/checkout.py says
when they are in another folder.
"""

TOOLS = beside_outputs("env", "tools.json")


rule make_env:
    """An environment of the stages, installed by uv from its lock."""
    input:
        env_file=of_cell(lambda cell: PLAN.environments.file(cell.env)),
        lock=of_cell(lambda cell: PLAN.environments.lock_files(cell.env)),
    output:
        versions=environments.packages_file("{env}"),
        pins=artifact("env", "pins.txt"),
        status=artifact("env", "status.json"),
    log:
        artifact("env", "log.txt"),
    priority: 1
    localrule: True
    conda:
        "../../envs/report.yaml"
    threads: JOBS.slot_threads()
    resources:
        timeout_s=PLAN.within_limits("env").timeout_s,
        memory_mb=PLAN.within_limits("env").memory_mb,
        more_time=0,
        more_memory=0,
        preload=0,
        sandbox=0,
    params:
        **JOBS.params("env"),
        prefix=of_cell(lambda cell: environments.prefix(cell.env)),
        pins=of_cell(lambda cell: PLAN.environments.pins_digest(cell.env)),
        # Not a function of wildcards alone, so that environments made before there were toolchains
        # need not be made again; `pins` changes with it.
        toolchain=lambda w, input: PLAN.environments.option(w.env),
    shell:
        f"{SUPERVISE}"
        " --module scripts.stages.make_env"
        f" --artifact {{output.versions:q}} {{output.pins:q}} {TOOLS}"
        f" -- {DRIVER} -m scripts.stages.make_env"
        " --env-file {input.env_file:q} --prefix {params.prefix:q}"
        " --pins {params.pins:q} {params.toolchain}"
        " --out-versions {output.versions:q} --out-pins {output.pins:q}"
        f" --out-tools {TOOLS}"
