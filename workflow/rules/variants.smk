"""Other ways to compile: remedies after a failed compilation, and `snakemake results/tuned.csv`."""


rule compile_iree_by_remedy:
    """Where a compilation fails: other programs, levels or flags, until one compiles."""
    input:
        **JOBS.environment("remedy"),
        asked=artifact("compile", "status.json"),
        programs=of_cell(lambda cell: PLAN.modules.exports(cell, "program.mlir")),
        exports=of_cell(lambda cell: PLAN.modules.exports(cell, "status.json")),
    output:
        vmfb=artifact("remedy", "module.vmfb"),
        report=artifact("remedy", "report.json"),
        status=artifact("remedy", "status.json"),
    log:
        artifact("remedy", "log.txt"),
    group:
        JOBS.together("build-{model}")
    conda:
        "../../envs/iree.yaml"
    threads: JOBS.slot_threads()
    resources:
        **JOBS.asks("remedy"),
        **JOBS.beside_others(),
    params:
        **JOBS.params("remedy"),
        # Not a function of wildcards alone, so a change runs nothing by itself: `due` knows what a
        # changed table concerns.
        request=of_cell(lambda cell: "{}"),
        remedies=lambda w, input: PLAN.modules.text(cell.of_wildcards(w)),
    shell:
        requested(
            "remedy",
            after="env",
            makes="vmfb report",
            more="--asked {input.asked:q} --remedies {params.remedies:q} --pins {params.pins}",
        )


rule tune_iree:
    """The fastest module of a model for a target, and the fastest one that is configured anyway."""
    input:
        **JOBS.environment("tune"),
        programs=of_cell(lambda cell: PLAN["variants"].exports("program.mlir", cell)),
        exports=of_cell(lambda cell: PLAN["variants"].exports("status.json", cell)),
        specs=of_cell(PLAN["variants"].specs),
        before=artifact("reference", "status.json"),
        weights=artifact("reference", "weights.irpa"),
        inputs=artifact("reference", "inputs.npz"),
        golden=artifact("reference", "golden.npz"),
        signature=artifact("reference", "signature.json"),
    output:
        tuned=artifact("tune", "tuned.vmfb"),
        default=artifact("tune", "default.vmfb"),
        report=artifact("tune", "report.json"),
        status=artifact("tune", "status.json"),
    log:
        artifact("tune", "log.txt"),
    group:
        JOBS.group_on("measure", PLAN["variants"].target)
    conda:
        "../../envs/iree.yaml"
    # All of them, for compilations beside each other.
    threads: JOBS.all_threads()
    resources:
        **JOBS.asks("tune", PLAN["variants"].search_s),
        **JOBS.alone_on(PLAN["variants"].target),
    params:
        **JOBS.params("tune"),
        search=of_cell(PLAN["variants"].search),
        request=of_cell(PLAN["variants"].request),
    shell:
        tuned_by(
            "tune",
            run="scripts.stages.verify_iree",
            files="weights inputs golden signature",
            after="env before",
            makes="tuned default report",
            more="--files vmfb {output.tuned:q} --search {params.search:q} --cores {threads}",
        )


use rule time_group as time_tuned with:
    """The tuned rows of a model, and those of eager and inductor, timed in turns."""
    input:
        before=of_cell(lambda cell: PLAN["variants"].groups.files(cell, "status.json")),
        verified=of_cell(
            lambda cell: PLAN["variants"].groups.files(cell, "verification.json")
        ),
    output:
        timing=artifact("time_tuned", "timing.json"),
        status=artifact("time_tuned", "status.json"),
    log:
        artifact("time_tuned", "log.txt"),
    group:
        JOBS.group_on("measure", PLAN["variants"].groups.on_device)
    resources:
        **JOBS.asks("time_tuned"),
        **JOBS.alone_on(PLAN["variants"].groups.on_device),
    params:
        **JOBS.params("time_tuned"),
        request=of_cell(PLAN["variants"].groups.request),


rule aggregate_tuned:
    """The rows of results/tuned.csv, and results/tuned/<model>/<target>.yaml for `tuned: auto`."""
    input:
        lambda w: PLAN["variants"].results(),
    output:
        csv="results/tuned.csv",
        jsonl="results/tuned.jsonl",
        md="results/tuned.md",
    log:
        "results/logs/tuned.txt",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        python=PLAN.report_python(),
        matrix=lambda w: PLAN["variants"].digest(),
        code=PLAN.aggregation.measuring_code(),
        due=outputs.due(outputs.files_of("tuned")),
        gate=GATE.param(),
    shell:
        aggregated("--set tuned")
