"""Exports a model to a program with named parameters, once per frontend."""

LOCATIONS = beside_outputs("export", "locations.json")


rule export_program:
    """The program of a model by one frontend."""
    input:
        **environment("export"),
        **model_files(),
        signature=of_cell(lambda w: PLAN.reference(w, "signature.json")),
        reference=of_cell(lambda w: PLAN.reference(w, "status.json")),
    output:
        program=artifact("export", "program.mlir"),
        report=artifact("export", "report.json"),
        status=artifact("export", "status.json"),
    log:
        artifact("export", "log.txt"),
    group:
        together("build-{model}")
    conda:
        of_cell(lambda w: f"../../envs/{PLAN.frontend(w).env}.yaml")
    threads: slot_threads()
    resources:
        **asks("export"),
        **beside_others(),
    params:
        **stage_params("export"),
        options=of_cell(PLAN.options.model),
        exporter=of_cell(lambda w: PLAN.frontend(w).exporter),
        exporter_options=of_cell(PLAN.options.exporter),
        ir_format=of_cell(lambda w: PLAN.frontend(w).ir_format),
        computes=of_cell(PLAN.options.exported),
    shell:
        f"{SUPERVISE}"
        " --module scripts.stages.export_program scripts.exporters.{params.exporter}"
        " --upstream {input.env:q} {input.reference:q}"
        f" --artifact {{output.program:q}} {{output.report:q}} {LOCATIONS}"
        " -- {params.python} -m scripts.stages.export_program"
        f"{LOAD_MODEL}"
        " --options {params.options:q} --signature {input.signature:q}"
        " --exporter {params.exporter:q} --exporter-options {params.exporter_options:q}"
        " --ir-format {params.ir_format} {params.computes}"
        " --out-program {output.program:q} --out-report {output.report:q}"
        f" --out-locations {LOCATIONS}"
