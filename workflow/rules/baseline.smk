"""The same weights and inputs through PyTorch's own runtimes."""


rule verify_baseline:
    """A model loaded, called and verified in one of PyTorch's runtimes."""
    input:
        **environment("baseline"),
        **model_files(),
        **compared_with(),
        program=lambda w: PLAN.program(w, "program.mlir"),
        export=lambda w: PLAN.program(w, "status.json"),
    output:
        verification=artifact("baseline", "verification.json"),
        status=artifact("baseline", "status.json"),
    log:
        artifact("baseline", "log.txt"),
    # After all builds.
    priority: -1
    group:
        together(lambda w: group_on("verify", PLAN.baseline(w).node))
    conda:
        of_cell(lambda w: f"../../envs/{PLAN.baseline(w).env}.yaml")
    threads: slot_threads()
    resources:
        **asks("baseline"),
        **verified_on(PLAN.baseline),
    params:
        **stage_params("baseline"),
        runtime=of_cell(lambda w: PLAN.baseline(w).runtime),
        step=of_cell(PLAN.options.step),
        tolerance=of_cell(lambda w: PLAN.options.tolerance("baseline", w)),
        collect=PLAN.options.collect(),
        cache=artifact("baseline", "cache"),
    shell:
        f"{SUPERVISE}"
        " --module scripts.stages.verify_baseline scripts.baselines.{params.runtime}"
        " {params.skip} --upstream {input.env:q} {input.before:q} {input.export:q}"
        " --artifact {output.verification:q}"
        " -- {params.python} -m scripts.stages.verify_baseline"
        f"{LOAD_MODEL}"
        " {params.step} --weights {input.weights:q} --inputs {input.inputs:q}"
        " --golden {input.golden:q} --signature {input.signature:q}"
        " --tolerance {params.tolerance:q}"
        " --collect {params.collect:q} --cache {params.cache:q}"
        " --out {output.verification:q}"
