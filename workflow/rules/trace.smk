"""`snakemake results/operators/traces/<model>.txt`: the operators that a model calls."""


rule traces:
    """The operator traces of all selected models."""
    input:
        expand("results/operators/traces/{model}.txt", model=MATRIX.models),


rule trace_operators:
    """The operators that a model calls in eval and training, as a trace file."""
    input:
        **environment("trace"),
        **model_files(),
    output:
        trace="results/operators/traces/{model}.txt",
        status=artifact("trace", "status.json"),
    log:
        artifact("trace", "log.txt"),
    group:
        together("reference")
    conda:
        f"../../envs/{MATRIX.reference_env}.yaml"
    threads: slot_threads()
    resources:
        **asks("trace"),
        **beside_others(),
    params:
        **stage_params("trace"),
        options=of_cell(PLAN.options.model),
    shell:
        SUPERVISE + " --module scripts.stages.trace_operators {params.skip}"
        " --upstream {input.env:q} --artifact {output.trace:q}"
        " -- {params.python} -m scripts.stages.trace_operators"
        + LOAD_MODEL
        + " --options {params.options:q} --out-trace {output.trace:q}"
