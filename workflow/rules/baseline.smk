"""The same weights, inputs and stopping rule through PyTorch's own runtimes."""


rule measure_baseline:
    input:
        packages=lambda w: ancient(PLAN.env_packages(PLAN.baseline(w).env)),
        env=lambda w: env_of(
            PLAN.baseline(w).env, "baseline", f"{w.model}/{w.baseline}/{w.test}"
        ),
        model_file=lambda w: PLAN.model(w).file,
        model_parts=lambda w: PLAN.model_parts(w),
        reference=lambda w: PLAN.golden(w, "status.json"),
        golden=lambda w: PLAN.golden(w, "golden.npz"),
        signature=lambda w: PLAN.golden(w, "signature.json"),
        weights="results/reference/{model}/weights.irpa",
        inputs="results/reference/{model}/inputs.npz",
        program=lambda w: PLAN.program(w, "program.mlir"),
        export=lambda w: PLAN.program(w, "status.json"),
    output:
        measurement="results/baseline/{model}/{baseline}/{test}/measurement.json",
        status="results/baseline/{model}/{baseline}/{test}/status.json",
    log:
        "results/baseline/{model}/{baseline}/{test}/log.txt",
    priority: -1
    group:
        lambda w: measured_on(PLAN.baseline(w).node)
    conda:
        lambda w: f"../../envs/{PLAN.baseline(w).env}.yaml"
    threads: all_threads
    resources:
        **asks("baseline"),
        **alone_on(PLAN.baseline),
    params:
        stage="baseline",
        cell="{model}/{baseline}/{test}",
        due=lambda w: PLAN.due(
            "baseline",
            f"{w.model}/{w.baseline}/{w.test}",
            f"scripts.baselines.{PLAN.baseline(w).runtime}",
        ),
        skip=lambda w: PLAN.skip(f"{w.model}/{w.baseline}/{w.test}"),
        python=lambda w: PLAN.python(PLAN.baseline(w).env),
        pins=lambda w: PLAN.pins(PLAN.baseline(w).env),
        runtime=lambda w: PLAN.baseline(w).runtime,
        step=lambda w: PLAN.step(w),
        tolerance=lambda w: PLAN.tolerance(w, f"{w.model}/{w.baseline}/{w.test}"),
        stopping=PLAN.rule(),
        collect=PLAN.collect(),
    shell:
        SUPERVISE
        + " --module scripts.measure_baseline scripts.baselines.{params.runtime}"
        " {params.skip} --upstream {input.env:q} {input.reference:q} {input.export:q}"
        " --artifact {output.measurement:q}"
        " -- {params.python} -m scripts.measure_baseline"
        " --name {wildcards.model:q} --model-file {input.model_file:q} {params.step}"
        " --weights {input.weights:q} --inputs {input.inputs:q}"
        " --golden {input.golden:q} --signature {input.signature:q}"
        " --tolerance {params.tolerance:q} --rule {params.stopping:q}"
        " --collect {params.collect:q} --out {output.measurement:q}"
