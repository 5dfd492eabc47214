"""Compares a module's results with golden on its device."""


rule verify_iree:
    """A module loaded, called and verified on its device."""
    input:
        **JOBS.environment("verify"),
        **JOBS.compiled(),
        **JOBS.started_from(),
        exported=of_cell(PLAN.exported),
    output:
        verification=artifact("verify", "verification.json"),
        status=artifact("verify", "status.json"),
    log:
        artifact("verify", "log.txt"),
    # Before further builds, so that a run soon shows rows that are verified.
    priority: 1
    group:
        JOBS.group_on("verify", PLAN.target)
    conda:
        "../../envs/iree.yaml"
    threads: JOBS.slot_threads()
    resources:
        **JOBS.asks("verify"),
        **JOBS.verified_on(PLAN.target),
    params:
        **JOBS.params("verify"),
        device=of_cell(lambda cell: PLAN.target(cell).device),
        tolerance=of_cell(PLAN.options.tolerance),
        worker_threads=of_cell(PLAN.options.threads),
        raw_inputs=artifact("verify", "inputs"),
    shell:
        f"{SUPERVISE}"
        " --module scripts.stages.verify_iree"
        " --upstream {input.env:q} {input.before:q}"
        " --artifact {output.verification:q}"
        " -- {params.python} -m scripts.stages.verify_iree --vmfb {input.vmfb:q}"
        " --weights {input.weights:q} --inputs {input.inputs:q}"
        " --golden {input.golden:q} --signature {input.signature:q}"
        " --exported {input.exported:q}"
        " --device {params.device:q} {params.worker_threads}"
        " --tolerance {params.tolerance:q} --raw-inputs {params.raw_inputs:q}"
        " --out {output.verification:q}"
