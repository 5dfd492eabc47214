"""Verify a module against golden on its device, then time it, with nothing else running."""


rule measure_iree:
    input:
        packages=lambda w: ancient(PLAN.env_packages(plan.IREE_ENV)),
        env=lambda w: env_of(
            plan.IREE_ENV, "measure", f"{w.model}/{w.frontend}/{w.target}"
        ),
        vmfb="results/compile/{model}/{frontend}/{target}/module.vmfb",
        compile="results/compile/{model}/{frontend}/{target}/status.json",
        weights="results/reference/{model}/weights.irpa",
        inputs="results/reference/{model}/inputs.npz",
        golden="results/reference/{model}/golden.npz",
        signature="results/reference/{model}/signature.json",
    output:
        measurement="results/measure/{model}/{frontend}/{target}/measurement.json",
        status="results/measure/{model}/{frontend}/{target}/status.json",
    log:
        "results/measure/{model}/{frontend}/{target}/log.txt",
    priority: -1
    group:
        lambda w: measured_on(PLAN.target(w).node)
    conda:
        "../../envs/iree.yaml"
    threads: all_threads
    resources:
        **asks("measure"),
        **alone_on(PLAN.target),
    params:
        stage="measure",
        cell="{model}/{frontend}/{target}",
        due=lambda w: PLAN.due("measure", f"{w.model}/{w.frontend}/{w.target}"),
        python=PLAN.python(plan.IREE_ENV),
        pins=PLAN.pins(plan.IREE_ENV),
        device=lambda w: PLAN.target(w).device,
        tolerance=lambda w: PLAN.tolerance(w, f"{w.model}/{w.frontend}/{w.target}"),
        stopping=PLAN.rule(),
        worker_threads=PLAN.threads(),
        raw_inputs=lambda w: f"results/measure/{w.model}/{w.frontend}/{w.target}/inputs",
    shell:
        SUPERVISE + " --module scripts.measure_iree"
        " --upstream {input.env:q} {input.compile:q}"
        " --artifact {output.measurement:q}"
        " -- {params.python} -m scripts.measure_iree --vmfb {input.vmfb:q}"
        " --weights {input.weights:q} --inputs {input.inputs:q}"
        " --golden {input.golden:q} --signature {input.signature:q}"
        " --device {params.device:q} {params.worker_threads}"
        " --tolerance {params.tolerance:q} --rule {params.stopping:q}"
        " --raw-inputs {params.raw_inputs:q}"
        " --out {output.measurement:q}"
