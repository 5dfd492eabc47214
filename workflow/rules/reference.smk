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
        request=of_cell(PLAN.requests.reference),
    shell:
        requested(
            "reference",
            files="model_file",
            after="env",
            makes="weights inputs golden signature",
            values=JOBS.load_threads,
        )


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
        request=of_cell(PLAN.requests.gradients),
    shell:
        requested(
            "gradients",
            files="model_file weights inputs signature",
            after="env reference",
            makes="weights inputs golden signature",
            values=JOBS.load_threads,
        )
