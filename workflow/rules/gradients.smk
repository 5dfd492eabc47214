"""Once a model that is trained: the golden loss and gradients of one step, eager and float64."""


rule make_gradients:
    input:
        packages=lambda w: ancient(PLAN.env_packages(PLAN.reference_env())),
        env=lambda w: env_of(PLAN.reference_env(), "gradients", w.model),
        model_file=lambda w: PLAN.model(w).file,
        model_parts=lambda w: PLAN.model_parts(w),
        reference="results/reference/{model}/status.json",
        weights="results/reference/{model}/weights.irpa",
        inputs="results/reference/{model}/inputs.npz",
        signature="results/reference/{model}/signature.json",
    output:
        golden="results/gradients/{model}/golden.npz",
        signature="results/gradients/{model}/signature.json",
        status="results/gradients/{model}/status.json",
    log:
        "results/gradients/{model}/log.txt",
    group:
        "build-{model}"
    conda:
        f"../../envs/{PLAN.reference_env()}.yaml"
    threads: slot_threads
    resources:
        **asks("gradients"),
        **beside_others(),
    params:
        stage="gradients",
        cell="{model}",
        due=lambda w: PLAN.due("gradients", w.model),
        skip=lambda w: PLAN.skip_model(w, "train"),
        python=lambda w: PLAN.python(PLAN.reference_env()),
        pins=lambda w: PLAN.pins(PLAN.reference_env()),
        options=lambda w: matrix.compact(PLAN.model(w).options),
    shell:
        SUPERVISE + " --module scripts.make_gradients {params.skip}"
        " --upstream {input.env:q} {input.reference:q}"
        " --artifact {output.golden:q} {output.signature:q}"
        " -- {params.python} -m scripts.make_gradients"
        " --name {wildcards.model:q} --model-file {input.model_file:q}"
        " --options {params.options:q} --weights {input.weights:q}"
        " --inputs {input.inputs:q} --signature {input.signature:q}"
        " --out-golden {output.golden:q} --out-signature {output.signature:q}"
