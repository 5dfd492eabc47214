"""Compares a module's results with golden on its device."""


rule verify_iree:
    """A module loaded, called and verified on its device."""
    input:
        **environment("verify"),
        **compiled(),
        **started_from(),
    output:
        verification=artifact("verify", "verification.json"),
        status=artifact("verify", "status.json"),
    log:
        artifact("verify", "log.txt"),
    # Before further builds, so that a run soon shows rows that are verified.
    priority: 1
    group:
        together(lambda w: group_on("verify", PLAN.target(w).node))
    conda:
        "../../envs/iree.yaml"
    threads: slot_threads()
    resources:
        **asks("verify"),
        **verified_on(PLAN.target),
    params:
        **stage_params("verify"),
        device=of_cell(lambda w: PLAN.target(w).device),
        tolerance=of_cell(lambda w: PLAN.options.tolerance("verify", w)),
        worker_threads=of_cell(lambda w: PLAN.options.threads(w.target)),
        raw_inputs=artifact("verify", "inputs"),
    shell:
        f"{SUPERVISE}"
        " --module scripts.stages.verify_iree"
        " --upstream {input.env:q} {input.before:q}"
        " --artifact {output.verification:q}"
        " -- {params.python} -m scripts.stages.verify_iree --vmfb {input.vmfb:q}"
        " --weights {input.weights:q} --inputs {input.inputs:q}"
        " --golden {input.golden:q} --signature {input.signature:q}"
        " --device {params.device:q} {params.worker_threads}"
        " --tolerance {params.tolerance:q} --raw-inputs {params.raw_inputs:q}"
        " --out {output.verification:q}"
