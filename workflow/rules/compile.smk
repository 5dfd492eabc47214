"""Compiles a program to a module, once per target."""


rule compile_iree:
    """The module of a program for one target."""
    input:
        **JOBS.environment("compile"),
        program=artifact("export", "program.mlir"),
        export=artifact("export", "status.json"),
        specs=of_cell(PLAN.maker.specs),
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
        target=of_cell(PLAN.options.compile),
        hang=of_cell(PLAN.maker.hang),
    shell:
        f"{SUPERVISE}"
        " --module scripts.stages.compile_iree {params.skip}"
        " --upstream {input.env:q} {input.export:q}"
        " --artifact {output.vmfb:q} {output.report:q} {params.hang}"
        " -- {params.python} -m scripts.stages.compile_iree --program {input.program:q}"
        " {params.target}"
        " --out-vmfb {output.vmfb:q} --out-report {output.report:q}"
