"""`snakemake dumps`: profiles, IR and metrics of the cells that are selected, beside their rows."""


rule dumps:
    input:
        PLAN.dumps(),


rule dump_baseline:
    input:
        packages=lambda w: ancient(PLAN.env_packages(PLAN.baseline(w).env)),
        env=lambda w: env_of(PLAN.baseline(w).env, "dumps", PLAN.dump_cell(w)),
        model_file=lambda w: PLAN.model(w).file,
        model_parts=lambda w: PLAN.model_parts(w),
        reference=lambda w: PLAN.golden(w, "status.json"),
        golden=lambda w: PLAN.golden(w, "golden.npz"),
        signature=lambda w: PLAN.golden(w, "signature.json"),
        weights="results/reference/{model}/weights.irpa",
        inputs="results/reference/{model}/inputs.npz",
        program=lambda w: PLAN.program(w, "program.mlir"),
        export=lambda w: PLAN.program(w, "status.json"),
    output:
        listing="results/dumps/{model}/{baseline}/{test}/files.json",
        status="results/dumps/{model}/{baseline}/{test}/status.json",
    log:
        "results/dumps/{model}/{baseline}/{test}/log.txt",
    conda:
        lambda w: f"../../envs/{PLAN.baseline(w).env}.yaml"
    threads: slot_threads
    resources:
        **asks("dumps"),
        **on_node(PLAN.baseline),
    params:
        stage="dumps",
        cell="{model}/{baseline}/{test}",
        due=lambda w: PLAN.due(
            "dumps",
            PLAN.dump_cell(w),
            "scripts.dump_baseline",
            f"scripts.baselines.{PLAN.baseline(w).runtime}",
        ),
        skip=lambda w: PLAN.skip(PLAN.dump_cell(w)),
        python=lambda w: PLAN.python(PLAN.baseline(w).env),
        pins=lambda w: PLAN.pins(PLAN.baseline(w).env),
        runtime=lambda w: PLAN.baseline(w).runtime,
        step=lambda w: PLAN.step(w),
        what=PLAN.dump_options("kinds", "save_ir", "repeat", "iterations"),
        folder="results/dumps/{model}/{baseline}/{test}",
    shell:
        SUPERVISE
        + " --module scripts.dump_baseline scripts.baselines.{params.runtime}"
        " {params.skip} --upstream {input.env:q} {input.reference:q} {input.export:q}"
        " --artifact {output.listing:q}"
        " -- {params.python} -m scripts.dump_baseline"
        " --name {wildcards.model:q} --model-file {input.model_file:q} {params.step}"
        " --weights {input.weights:q} --inputs {input.inputs:q}"
        " --golden {input.golden:q} --signature {input.signature:q} {params.what}"
        " --out-folder {params.folder:q} --out-listing {output.listing:q}"


rule dump_iree:
    input:
        packages=lambda w: ancient(PLAN.env_packages(plan.IREE_ENV)),
        env=lambda w: env_of(plan.IREE_ENV, "dumps", PLAN.dump_cell(w)),
        program="results/export/{model}/{frontend}/program.mlir",
        export="results/export/{model}/{frontend}/status.json",
    output:
        listing="results/dumps/{model}/iree/{frontend}/{target}/files.json",
        status="results/dumps/{model}/iree/{frontend}/{target}/status.json",
    log:
        "results/dumps/{model}/iree/{frontend}/{target}/log.txt",
    conda:
        "../../envs/iree.yaml"
    threads: slot_threads
    resources:
        **asks("dumps"),
    params:
        stage="dumps",
        cell="{model}/iree/{frontend}/{target}",
        due=lambda w: PLAN.due("dumps", PLAN.dump_cell(w), "scripts.dump_iree"),
        skip=lambda w: PLAN.skip(f"{w.model}/{w.frontend}/{w.target}"),
        python=PLAN.python(plan.IREE_ENV),
        pins=PLAN.pins(plan.IREE_ENV),
        target=lambda w: PLAN.compile_options(w),
        what=PLAN.dump_options("kinds"),
        folder="results/dumps/{model}/iree/{frontend}/{target}",
    shell:
        SUPERVISE + " --module scripts.dump_iree {params.skip}"
        " --upstream {input.env:q} {input.export:q} --artifact {output.listing:q}"
        " -- {params.python} -m scripts.dump_iree --program {input.program:q}"
        " {params.target} {params.what}"
        " --out-folder {params.folder:q} --out-listing {output.listing:q}"
