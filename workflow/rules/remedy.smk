"""Tries other ways to compile a model for a target where what was asked for does not compile."""


rule compile_iree_by_remedy:
    """Where a compilation fails: other programs, levels or flags, until one compiles."""
    input:
        **environment("remedy"),
        asked=artifact("compile", "status.json"),
        programs=of_cell(lambda w: PLAN["variants"].remedies.exports(w, "program.mlir")),
        exports=of_cell(lambda w: PLAN["variants"].remedies.exports(w, "status.json")),
    output:
        vmfb=artifact("remedy", "module.vmfb"),
        report=artifact("remedy", "report.json"),
        status=artifact("remedy", "status.json"),
    log:
        artifact("remedy", "log.txt"),
    group:
        together("build-{model}")
    conda:
        "../../envs/iree.yaml"
    threads: slot_threads()
    resources:
        **asks("remedy"),
        **beside_others(),
    params:
        **stage_params("remedy"),
        # Not a function of wildcards alone, so a change runs nothing by itself: `due` knows what a
        # changed table concerns.
        remedies=lambda w, input: PLAN["variants"].remedies.text(w),
    shell:
        SUPERVISE + " --module scripts.stages.compile_iree"
        " --asked {input.asked:q} --remedies {params.remedies:q} --pins {params.pins}"
        " --upstream {input.env:q} --artifact {output.vmfb:q} {output.report:q}"
        " -- {params.python} -m scripts.stages.compile_iree"
        " --out-vmfb {output.vmfb:q} --out-report {output.report:q}"
