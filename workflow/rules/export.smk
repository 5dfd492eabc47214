"""From a model to a program with named parameters, once a frontend."""


rule export_program:
    input:
        packages=lambda w: ancient(PLAN.env_packages(PLAN.frontend(w).env)),
        env=lambda w: env_of(PLAN.frontend(w).env, "export", f"{w.model}/{w.frontend}"),
        model_file=lambda w: PLAN.model(w).file,
        model_parts=lambda w: PLAN.model_parts(w),
        signature="results/reference/{model}/signature.json",
        reference="results/reference/{model}/status.json",
    output:
        program="results/export/{model}/{frontend}/program.mlir",
        report="results/export/{model}/{frontend}/report.json",
        status="results/export/{model}/{frontend}/status.json",
    log:
        "results/export/{model}/{frontend}/log.txt",
    group:
        "build-{model}"
    conda:
        lambda w: f"../../envs/{PLAN.frontend(w).env}.yaml"
    threads: slot_threads
    resources:
        **asks("export"),
        **beside_others(),
    params:
        stage="export",
        cell="{model}/{frontend}",
        due=lambda w: PLAN.due(
            "export",
            f"{w.model}/{w.frontend}",
            f"scripts.exporters.{PLAN.frontend(w).exporter}",
        ),
        python=lambda w: PLAN.python(PLAN.frontend(w).env),
        pins=lambda w: PLAN.pins(PLAN.frontend(w).env),
        options=lambda w: matrix.compact(PLAN.model(w).options),
        exporter=lambda w: PLAN.frontend(w).exporter,
        exporter_options=lambda w: matrix.compact(PLAN.frontend(w).options),
        ir_format=lambda w: PLAN.frontend(w).ir_format,
    shell:
        SUPERVISE
        + " --module scripts.export_program scripts.exporters.{params.exporter}"
        " --upstream {input.env:q} {input.reference:q}"
        " --artifact {output.program:q} {output.report:q}"
        " -- {params.python} -m scripts.export_program"
        " --name {wildcards.model:q} --model-file {input.model_file:q}"
        " --options {params.options:q} --signature {input.signature:q}"
        " --exporter {params.exporter:q} --exporter-options {params.exporter_options:q}"
        " --ir-format {params.ir_format}"
        " --out-program {output.program:q} --out-report {output.report:q}"
