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
        request=of_cell(PLAN.env_request),
        # Not a function of wildcards alone, so that environments made before there were toolchains
        # need not be made again; `pins` changes with it.
        toolchain=lambda w, input: PLAN.environments.option(w.env),
    shell:
        requested(
            "env",
            files="env_file",
            makes="versions pins",
            beside=TOOLS,
            python=DRIVER,
            more="{params.toolchain}",
        )
