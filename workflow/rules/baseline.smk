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
        runtime=of_cell(lambda cell: PLAN.baseline(cell).runtime),
        step=of_cell(PLAN.options.step),
        tolerance=of_cell(PLAN.options.tolerance),
        collect=PLAN.options.collect(),
        cache=artifact("baseline", "cache"),
    shell:
        f"{SUPERVISE}"
        " --module scripts.stages.verify_baseline scripts.baselines.{params.runtime}"
        " {params.skip} --upstream {input.env:q} {input.before:q} {input.export:q}"
        " --artifact {output.verification:q}"
        " -- {params.python} -m scripts.stages.verify_baseline"
        f"{JOBS.load_model}"
        " {params.step} --weights {input.weights:q} --inputs {input.inputs:q}"
        " --golden {input.golden:q} --signature {input.signature:q}"
        " --tolerance {params.tolerance:q}"
        " --collect {params.collect:q} --cache {params.cache:q}"
        " --out {output.verification:q}"
