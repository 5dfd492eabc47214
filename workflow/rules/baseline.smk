"""The same weights, inputs and stopping rule through PyTorch's own runtimes."""


rule measure_baseline:
    input:
        packages=lambda w: ancient(PLAN.env_packages(PLAN.baseline(w).env)),
        env=lambda w: env_of(
            PLAN.baseline(w).env, "baseline", f"{w.model}/{w.baseline}"
        ),
        model_file=lambda w: PLAN.model(w).file,
        reference="results/reference/{model}/status.json",
        weights="results/reference/{model}/weights.irpa",
        inputs="results/reference/{model}/inputs.npz",
        golden="results/reference/{model}/golden.npz",
        signature="results/reference/{model}/signature.json",
    output:
        measurement="results/baseline/{model}/{baseline}/measurement.json",
        status="results/baseline/{model}/{baseline}/status.json",
    log:
        "results/baseline/{model}/{baseline}/log.txt",
    priority: -1
    conda:
        lambda w: f"../../envs/{PLAN.baseline(w).env}.yaml"
    threads: ALL_THREADS
    resources:
        timeout_s=lambda w: PLAN.timeout_s("baseline"),
        mem_mb=lambda w: PLAN.memory_mb("baseline"),
    params:
        stage="baseline",
        cell="{model}/{baseline}",
        due=lambda w: PLAN.due(
            "baseline",
            f"{w.model}/{w.baseline}",
            f"scripts.baselines.{PLAN.baseline(w).runtime}",
        ),
        python=lambda w: PLAN.python(PLAN.baseline(w).env),
        pins=lambda w: PLAN.pins(PLAN.baseline(w).env),
        options=lambda w: matrix.compact(PLAN.model(w).options),
        runtime=lambda w: PLAN.baseline(w).runtime,
        device=lambda w: PLAN.baseline(w).device,
        tolerance=lambda w: matrix.compact(PLAN.model(w).tolerance),
        stopping=PLAN.rule(),
        worker_threads=PLAN.threads(),
    shell:
        SUPERVISE
        + " --module scripts.measure_baseline scripts.baselines.{params.runtime}"
        " --upstream {input.env:q} {input.reference:q}"
        " --artifact {output.measurement:q}"
        " -- {params.python} -m scripts.measure_baseline"
        " --name {wildcards.model:q} --model-file {input.model_file:q}"
        " --options {params.options:q} --runtime {params.runtime:q}"
        " --device {params.device} {params.worker_threads}"
        " --weights {input.weights:q} --inputs {input.inputs:q}"
        " --golden {input.golden:q} --signature {input.signature:q}"
        " --tolerance {params.tolerance:q} --rule {params.stopping:q}"
        " --out {output.measurement:q}"
