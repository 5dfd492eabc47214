"""Compiles a program to a module, once per target."""


rule compile_iree:
    """The module of a program for one target."""
    input:
        **JOBS.environment("compile"),
        program=artifact("export", "program.mlir"),
        export=artifact("export", "status.json"),
        specs=of_cell(PLAN.modules.specs),
    output:
        vmfb=artifact("compile", "module.vmfb"),
        report=artifact("compile", "report.json"),
        status=artifact("compile", "status.json"),
    log:
        artifact("compile", "log.txt"),
    group:
        JOBS.together("build-{model}")
    conda:
        "../../envs/iree.yaml"
    threads: JOBS.slot_threads()
    resources:
        **JOBS.asks("compile"),
        **JOBS.beside_others(),
    params:
        **JOBS.params("compile"),
        request=of_cell(PLAN.requests.compile),
        hang=of_cell(PLAN.modules.hang),
    shell:
        requested(
            "compile",
            files="program",
            after="env export",
            makes="vmfb report",
            more="{params.hang}",
        )
