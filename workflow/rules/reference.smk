"""Weights, inputs, golden and float64 outputs and the signature of a model, once per model."""


rule make_reference:
    """Weights, inputs, golden outputs and signature of a model."""
    input:
        **environment("reference"),
        **model_files(),
    output:
        weights=artifact("reference", "weights.irpa"),
        inputs=artifact("reference", "inputs.npz"),
        golden=artifact("reference", "golden.npz"),
        signature=artifact("reference", "signature.json"),
        status=artifact("reference", "status.json"),
    log:
        artifact("reference", "log.txt"),
    group:
        together("reference")
    conda:
        f"../../envs/{MATRIX.reference_env}.yaml"
    threads: slot_threads()
    resources:
        **asks("reference"),
        **beside_others(),
    params:
        **stage_params("reference"),
        options=of_cell(PLAN.options.model),
    shell:
        SUPERVISE + " --module scripts.stages.make_reference {params.skip}"
        " --upstream {input.env:q} --artifact"
        " {output.weights:q} {output.inputs:q} {output.golden:q} {output.signature:q}"
        " -- {params.python} -m scripts.stages.make_reference"
        + LOAD_MODEL
        + " --options {params.options:q}"
        " --out-weights {output.weights:q} --out-inputs {output.inputs:q}"
        " --out-golden {output.golden:q} --out-signature {output.signature:q}"
