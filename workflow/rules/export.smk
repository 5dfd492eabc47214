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
        request=of_cell(PLAN.requests.export),
    shell:
        requested(
            "export",
            files="model_file signature",
            after="env reference",
            makes="program report",
            beside=LOCATIONS,
            values=JOBS.load_threads,
        )
