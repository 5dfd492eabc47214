"""Exports a model to a program with named parameters, once per frontend."""

LOCATIONS = beside_outputs("export", "locations.json")


rule export_program:
    """The program of a model by one frontend."""
    input:
        **JOBS.environment("export"),
        **JOBS.model_files(),
        signature=JOBS.reference("signature.json"),
        reference=JOBS.reference("status.json"),
    output:
        program=artifact("export", "program.mlir"),
        report=artifact("export", "report.json"),
        status=artifact("export", "status.json"),
    log:
        artifact("export", "log.txt"),
    group:
        JOBS.together("build-{model}")
    conda:
        of_cell(lambda cell: f"../../envs/{PLAN.frontend(cell).env}.yaml")
    threads: JOBS.slot_threads()
    resources:
        **JOBS.asks("export"),
        **JOBS.beside_others(),
    params:
        **JOBS.params("export"),
        options=of_cell(PLAN.options.model),
        exporter=of_cell(lambda cell: PLAN.frontend(cell).exporter),
        exporter_options=of_cell(PLAN.options.exporter),
        ir_format=of_cell(lambda cell: PLAN.frontend(cell).ir_format),
        computes=of_cell(PLAN.options.exported),
    shell:
        f"{SUPERVISE}"
        " --module scripts.stages.export_program scripts.exporters.{params.exporter}"
        " --upstream {input.env:q} {input.reference:q}"
        f" --artifact {{output.program:q}} {{output.report:q}} {LOCATIONS}"
        " -- {params.python} -m scripts.stages.export_program"
        f"{JOBS.load_model}"
        " --options {params.options:q} --signature {input.signature:q}"
        " --exporter {params.exporter:q} --exporter-options {params.exporter_options:q}"
        " --ir-format {params.ir_format} {params.computes}"
        " --out-program {output.program:q} --out-report {output.report:q}"
        f" --out-locations {LOCATIONS}"
