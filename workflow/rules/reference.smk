"""Once a model: weights, inputs, golden and float64 outputs, signature."""


rule make_reference:
    input:
        packages=lambda w: ancient(PLAN.env_packages(PLAN.reference_env())),
        env=lambda w: env_of(PLAN.reference_env(), "reference", w.model),
        model_file=lambda w: PLAN.model(w).file,
        model_parts=lambda w: PLAN.model_parts(w),
    output:
        weights="results/reference/{model}/weights.irpa",
        inputs="results/reference/{model}/inputs.npz",
        golden="results/reference/{model}/golden.npz",
        signature="results/reference/{model}/signature.json",
        status="results/reference/{model}/status.json",
    log:
        "results/reference/{model}/log.txt",
    group:
        "reference"
    conda:
        f"../../envs/{PLAN.reference_env()}.yaml"
    threads: slot_threads
    resources:
        **asks("reference"),
        **beside_others(),
    params:
        stage="reference",
        cell="{model}",
        due=lambda w: PLAN.due("reference", w.model),
        skip=lambda w: PLAN.skip_model(w),
        python=lambda w: PLAN.python(PLAN.reference_env()),
        pins=lambda w: PLAN.pins(PLAN.reference_env()),
        options=lambda w: matrix.compact(PLAN.model(w).options),
    shell:
        SUPERVISE + " --module scripts.make_reference {params.skip}"
        " --upstream {input.env:q} --artifact"
        " {output.weights:q} {output.inputs:q} {output.golden:q} {output.signature:q}"
        " -- {params.python} -m scripts.make_reference"
        " --name {wildcards.model:q} --model-file {input.model_file:q}"
        " --options {params.options:q}"
        " --out-weights {output.weights:q} --out-inputs {output.inputs:q}"
        " --out-golden {output.golden:q} --out-signature {output.signature:q}"
