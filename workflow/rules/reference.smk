"""Weights, inputs and golden results of a model: of its forward pass, and of its training step."""


rule make_reference:
    """Weights, inputs, golden outputs and signature of a model."""
    input:
        **JOBS.environment("reference"),
        **JOBS.model_files(),
    output:
        weights=artifact("reference", "weights.irpa"),
        inputs=artifact("reference", "inputs.npz"),
        golden=artifact("reference", "golden.npz"),
        signature=artifact("reference", "signature.json"),
        status=artifact("reference", "status.json"),
    log:
        artifact("reference", "log.txt"),
    group:
        JOBS.together("reference")
    conda:
        f"../../envs/{MATRIX.reference_env}.yaml"
    threads: JOBS.slot_threads()
    resources:
        **JOBS.asks("reference"),
        **JOBS.beside_others(),
    params:
        **JOBS.params("reference"),
        options=of_cell(PLAN.options.model),
    shell:
        f"{SUPERVISE}"
        " --module scripts.stages.make_reference {params.skip}"
        " --upstream {input.env:q} --artifact"
        " {output.weights:q} {output.inputs:q} {output.golden:q} {output.signature:q}"
        " -- {params.python} -m scripts.stages.make_reference"
        f"{JOBS.load_model}"
        " --options {params.options:q}"
        " --out-weights {output.weights:q} --out-inputs {output.inputs:q}"
        " --out-golden {output.golden:q} --out-signature {output.signature:q}"


rule make_gradients:
    """Golden loss, gradients and changes of one training step of a model."""
    input:
        **JOBS.environment("gradients"),
        **JOBS.model_files(),
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
        JOBS.together("build-{model}")
    conda:
        f"../../envs/{MATRIX.reference_env}.yaml"
    threads: JOBS.slot_threads()
    resources:
        **JOBS.asks("gradients"),
        **JOBS.beside_others(),
    params:
        **JOBS.params("gradients"),
        options=of_cell(PLAN.options.model),
        optimizer=PLAN.options.optimizer(),
    shell:
        f"{SUPERVISE}"
        " --module scripts.stages.make_gradients {params.skip}"
        " --upstream {input.env:q} {input.reference:q}"
        " --artifact {output.weights:q} {output.inputs:q} {output.golden:q} {output.signature:q}"
        " -- {params.python} -m scripts.stages.make_gradients"
        f"{JOBS.load_model}"
        " --options {params.options:q} {params.optimizer} --weights {input.weights:q}"
        " --inputs {input.inputs:q} --signature {input.signature:q}"
        " --out-weights {output.weights:q} --out-inputs {output.inputs:q}"
        " --out-golden {output.golden:q} --out-signature {output.signature:q}"
