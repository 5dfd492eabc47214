"""The same weights and inputs through PyTorch's own runtimes."""


rule verify_baseline:
    """A model loaded, called and verified in one of PyTorch's runtimes."""
    input:
        **JOBS.environment("baseline"),
        **JOBS.model_files(),
        **JOBS.compared_with(),
        program=of_cell(lambda cell: PLAN.program(cell, "program.mlir")),
        export=of_cell(lambda cell: PLAN.program(cell, "status.json")),
    output:
        verification=artifact("baseline", "verification.json"),
        status=artifact("baseline", "status.json"),
    log:
        artifact("baseline", "log.txt"),
    # After all builds.
    priority: -1
    group:
        JOBS.group_on("verify", PLAN.baseline)
    conda:
        of_cell(lambda cell: f"../../envs/{PLAN.baseline(cell).env}.yaml")
    threads: JOBS.slot_threads()
    resources:
        **JOBS.asks("baseline"),
        **JOBS.verified_on(PLAN.baseline),
    params:
        **JOBS.params("baseline"),
        request=of_cell(PLAN.requests.baseline),
    shell:
        requested(
            "baseline",
            files="model_file weights inputs golden signature",
            after="env before export",
            makes="verification",
            values=JOBS.load_threads,
        )
