"""Compares a module's results with golden on its device, then times it while nothing else runs."""


rule measure_iree:
    """A module verified on its device, then timed: the first round."""
    input:
        **environment("measure"),
        **compiled(),
        **started_from(),
    output:
        measurement=artifact("measure", "measurement.json"),
        status=artifact("measure", "status.json"),
    log:
        artifact("measure", "log.txt"),
    # After all builds and baselines: a stage that will be timed waits until other stages have ended,
    # and a core is idle during that time.
    priority: -2
    group:
        together(lambda w: measured_on(PLAN.target(w).node))
    conda:
        "../../envs/iree.yaml"
    threads: measuring_threads(prepares=False)
    resources:
        **asks("measure"),
        **alone_on(PLAN.target),
    params:
        **stage_params("measure"),
        device=of_cell(lambda w: PLAN.target(w).device),
        tolerance=of_cell(lambda w: PLAN.options.tolerance("measure", w)),
        stopping=of_cell(PLAN.options.rule),
        worker_threads=of_cell(lambda w: PLAN.options.threads(w.target)),
        raw_inputs=artifact("measure", "inputs"),
        first="",
    shell:
        SUPERVISE + " --module scripts.measure_iree"
        " --upstream {input.env:q} {input.before:q}"
        " --artifact {output.measurement:q}"
        " -- {params.python} -m scripts.measure_iree --vmfb {input.vmfb:q}"
        " --weights {input.weights:q} --inputs {input.inputs:q}"
        " --golden {input.golden:q} --signature {input.signature:q}"
        " --device {params.device:q} {params.worker_threads}"
        " --tolerance {params.tolerance:q} --rule {params.stopping:q}"
        " --raw-inputs {params.raw_inputs:q} {params.first}"
        " --out {output.measurement:q}"
