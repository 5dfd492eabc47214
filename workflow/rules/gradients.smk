"""The golden results of one training step, eager and in float64, and what it starts from, once per model."""


rule make_gradients:
    """Golden loss, gradients and changes of one training step of a model."""
    input:
        **environment("gradients"),
        **model_files(),
        reference=artifact("reference", "status.json"),
        weights=artifact("reference", "weights.irpa"),
        inputs=artifact("reference", "inputs.npz"),
        signature=artifact("reference", "signature.json"),
    output:
        weights=artifact("gradients", "weights.irpa"),
        inputs=artifact("gradients", "inputs.npz"),
        golden=artifact("gradients", "golden.npz"),
        signature=artifact("gradients", "signature.json"),
        status=artifact("gradients", "status.json"),
    log:
        artifact("gradients", "log.txt"),
    group:
        together("build-{model}")
    conda:
        f"../../envs/{MATRIX.reference_env}.yaml"
    threads: slot_threads()
    resources:
        **asks("gradients"),
        **beside_others(),
    params:
        **stage_params("gradients"),
        options=of_cell(PLAN.options.model),
        optimizer=PLAN.options.optimizer(),
    shell:
        SUPERVISE + " --module scripts.stages.make_gradients {params.skip}"
        " --upstream {input.env:q} {input.reference:q}"
        " --artifact {output.weights:q} {output.inputs:q} {output.golden:q} {output.signature:q}"
        " -- {params.python} -m scripts.stages.make_gradients"
        + LOAD_MODEL
        + " --options {params.options:q} {params.optimizer} --weights {input.weights:q}"
        " --inputs {input.inputs:q} --signature {input.signature:q}"
        " --out-weights {output.weights:q} --out-inputs {output.inputs:q}"
        " --out-golden {output.golden:q} --out-signature {output.signature:q}"
