"""Other ways to compile: remedies after a failed compilation, and `snakemake results/tuned.csv`."""


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
        f"{SUPERVISE}"
        " --module scripts.stages.compile_iree"
        " --asked {input.asked:q} --remedies {params.remedies:q} --pins {params.pins}"
        " --upstream {input.env:q} --artifact {output.vmfb:q} {output.report:q}"
        " -- {params.python} -m scripts.stages.compile_iree"
        " --out-vmfb {output.vmfb:q} --out-report {output.report:q}"


rule tune_iree:
    """The fastest module of a model for a target, and the fastest one that is configured anyway."""
    input:
        **environment("tune"),
        programs=of_cell(lambda w: PLAN["variants"].exports("program.mlir", w)),
        exports=of_cell(lambda w: PLAN["variants"].exports("status.json", w)),
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
        together(lambda w: group_on("measure", PLAN["variants"].target(w).node))
    conda:
        "../../envs/iree.yaml"
    # All of them, for compilations beside each other.
    threads: all_threads()
    resources:
        **asks("tune"),
        **alone_on(PLAN["variants"].target),
    params:
        **stage_params("tune"),
        search=of_cell(PLAN["variants"].search),
        device=of_cell(lambda w: PLAN["variants"].target(w).device),
        tolerance=of_cell(lambda w: PLAN.options.tolerance("tune", w)),
        worker_threads=PLAN.options.threads(),
        verification=artifact("tune", "verification.json"),
        raw_inputs=artifact("tune", "inputs"),
    shell:
        f"{SUPERVISE_TUNING}"
        " --module scripts.stages.tune_iree scripts.stages.compile_iree scripts.stages.verify_iree scripts.stages.time_module scripts.stages.tune_dispatches"
        " --search {params.search:q} --cores {threads}"
        " --upstream {input.env:q} {input.before:q}"
        " --artifact {output.tuned:q} {output.default:q} {output.report:q}"
        " -- {params.python} -m scripts.stages.verify_iree --vmfb {output.tuned:q}"
        " --weights {input.weights:q} --inputs {input.inputs:q}"
        " --golden {input.golden:q} --signature {input.signature:q}"
        " --device {params.device:q} {params.worker_threads}"
        " --tolerance {params.tolerance:q}"
        " --raw-inputs {params.raw_inputs:q} --out {params.verification:q}"


use rule time_group as time_tuned with:
    """The tuned rows of a model, and those of eager and inductor, timed in turns."""
    input:
        before=of_cell(lambda w: PLAN["variants"].groups.files(w, "status.json")),
        verified=of_cell(
            lambda w: PLAN["variants"].groups.files(w, "verification.json")
        ),
    output:
        timing=artifact("time_tuned", "timing.json"),
        status=artifact("time_tuned", "status.json"),
    log:
        artifact("time_tuned", "log.txt"),
    group:
        together(
            lambda w: group_on("measure", PLAN["variants"].groups.on_device(w).node)
        )
    resources:
        **asks("time_tuned"),
        **alone_on(PLAN["variants"].groups.on_device),
    params:
        **stage_params("time_tuned"),
        group=of_cell(PLAN["variants"].groups.given),


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
        due=outputs.due(feature.LOADED["variants"].tables),
        gate=GATE.param(),
    shell:
        f"{PREFIX}"
        "{params.python} -m scripts.stages.aggregate_tuned --matrix results/logs/matrix.json"
        " --out-csv {output.csv:q} --out-jsonl {output.jsonl:q} --out-md {output.md:q}"
        " --out-results results/tuned --due {params.due}"
        " 2>&1 | tee {log:q}"
