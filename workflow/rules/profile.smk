"""`snakemake dumps`, `snakemake profile` and `snakemake code`: profiles, IR, metrics and code of the selected cells. Rows do
not change."""


rule dumps:
    """Profiles, IR and metrics of the selected cells, under results/dumps/."""
    input:
        PLAN["profile"].dumps(),


rule dump_baseline:
    """Profiles, IR and metrics of one test of a baseline."""
    input:
        **JOBS.environment("dump_baseline"),
        **JOBS.model_files(),
        **JOBS.compared_with(),
        program=of_cell(lambda cell: PLAN.program(cell, "program.mlir")),
        export=of_cell(lambda cell: PLAN.program(cell, "status.json")),
    output:
        listing=artifact("dump_baseline", "files.json"),
        status=artifact("dump_baseline", "status.json"),
    log:
        artifact("dump_baseline", "log.txt"),
    conda:
        of_cell(lambda cell: f"../../envs/{PLAN.baseline(cell).env}.yaml")
    threads: JOBS.slot_threads()
    resources:
        **JOBS.asks("dump_baseline"),
        **JOBS.on_node(PLAN.baseline),
    params:
        **JOBS.params("dump_baseline"),
        runtime=of_cell(lambda cell: PLAN.baseline(cell).runtime),
        step=of_cell(PLAN.options.step),
        what=PLAN.options.dump("kinds", "save_ir", "repeat", "iterations"),
        folder=artifact("dump_baseline"),
    shell:
        f"{SUPERVISE}"
        " --module scripts.stages.dump_baseline scripts.baselines.{params.runtime}"
        " {params.skip} --upstream {input.env:q} {input.before:q} {input.export:q}"
        " --artifact {output.listing:q}"
        " -- {params.python} -m scripts.stages.dump_baseline"
        f"{JOBS.load_model}"
        " {params.step} --weights {input.weights:q} --inputs {input.inputs:q}"
        " --golden {input.golden:q} --signature {input.signature:q} {params.what}"
        " --out-folder {params.folder:q} --out-listing {output.listing:q}"


rule dump_iree:
    """IR after each phase of iree-compile, and the graph of dispatches, of one cell."""
    input:
        **JOBS.environment("dump_iree"),
        program=artifact("export", "program.mlir"),
        export=artifact("export", "status.json"),
    output:
        listing=artifact("dump_iree", "files.json"),
        status=artifact("dump_iree", "status.json"),
    log:
        artifact("dump_iree", "log.txt"),
    conda:
        "../../envs/iree.yaml"
    threads: JOBS.slot_threads()
    resources:
        **JOBS.asks("dump_iree"),
    params:
        **JOBS.params("dump_iree"),
        target=of_cell(PLAN.options.compile),
        what=PLAN.options.dump("kinds"),
        folder=artifact("dump_iree"),
    shell:
        f"{SUPERVISE}"
        " --module scripts.stages.dump_iree {params.skip}"
        " --upstream {input.env:q} {input.export:q} --artifact {output.listing:q}"
        " -- {params.python} -m scripts.stages.dump_iree --program {input.program:q}"
        " {params.target} {params.what}"
        " --out-folder {params.folder:q} --out-listing {output.listing:q}"


rule profile:
    """Profiles of the selected CPU cells, and of eager and inductor, under results/profile/."""
    input:
        PLAN["profile"].profiles(),


rule profile_baseline:
    """Time of each nn.Module in eager mode or under inductor."""
    input:
        **JOBS.environment("profile_baseline"),
        **JOBS.model_files(),
        **JOBS.compared_with(),
    output:
        profile=artifact("profile_baseline", "profile.json"),
        status=artifact("profile_baseline", "status.json"),
    log:
        artifact("profile_baseline", "log.txt"),
    conda:
        of_cell(lambda cell: f"../../envs/{PLAN.baseline(cell).env}.yaml")
    threads: JOBS.all_threads()
    resources:
        **JOBS.asks("profile_baseline"),
        **JOBS.alone_on(PLAN.baseline),
    params:
        **JOBS.params("profile_baseline"),
        runtime=of_cell(lambda cell: PLAN.baseline(cell).runtime),
        step=of_cell(PLAN.options.step),
    shell:
        f"{SUPERVISE}"
        " --module scripts.stages.profile_baseline scripts.baselines.{params.runtime}"
        " {params.skip} --upstream {input.env:q} {input.before:q}"
        " --artifact {output.profile:q}"
        " -- {params.python} -m scripts.stages.profile_baseline"
        f"{JOBS.load_model}"
        " {params.step} --weights {input.weights:q} --inputs {input.inputs:q}"
        " --golden {input.golden:q} --signature {input.signature:q}"
        " --out {output.profile:q}"


rule profile_iree:
    """Time of each dispatch of a module, and the operators and nn.Modules that it is of."""
    input:
        **JOBS.environment("profile_iree"),
        **JOBS.started_from("weights", "inputs", "signature"),
        program=artifact("export", "program.mlir"),
        vmfb=of_cell(lambda cell: PLAN.module(cell, "module.vmfb")),
        before=of_cell(lambda cell: PLAN.module(cell, "status.json")),
    output:
        profile=artifact("profile_iree", "profile.json"),
        status=artifact("profile_iree", "status.json"),
    log:
        artifact("profile_iree", "log.txt"),
    conda:
        "../../envs/iree.yaml"
    threads: JOBS.all_threads()
    resources:
        **JOBS.asks("profile_iree"),
        **JOBS.alone_on(PLAN.target),
    params:
        **JOBS.params("profile_iree"),
        target=of_cell(PLAN.options.compile),
        device=of_cell(lambda cell: PLAN.target(cell).device),
        worker_threads=of_cell(PLAN.options.threads),
    shell:
        f"{SUPERVISE}"
        " --module scripts.stages.profile_iree {params.skip}"
        " --upstream {input.env:q} {input.before:q} --artifact {output.profile:q}"
        " -- {params.python} -m scripts.stages.profile_iree --program {input.program:q}"
        f" --locations {LOCATIONS}"
        " {params.target} --vmfb {input.vmfb:q}"
        " --weights {input.weights:q} --inputs {input.inputs:q}"
        " --signature {input.signature:q}"
        " --device {params.device:q} {params.worker_threads}"
        " --out {output.profile:q}"


rule code:
    """What the code of the selected programs and targets is, under results/code/."""
    input:
        PLAN["profile"].codes(),


rule read_code:
    """The digest and the tiling of the code of each dispatch of a program."""
    input:
        **JOBS.environment("read_code"),
        program=artifact("export", "program.mlir"),
        export=artifact("export", "status.json"),
    output:
        code=artifact("read_code", "code.json"),
        status=artifact("read_code", "status.json"),
    log:
        artifact("read_code", "log.txt"),
    conda:
        "../../envs/iree.yaml"
    threads: JOBS.slot_threads()
    resources:
        **JOBS.asks("read_code"),
    params:
        **JOBS.params("read_code"),
        target=of_cell(PLAN.options.compile),
        hang=of_cell(PLAN.maker.hang),
    shell:
        f"{SUPERVISE}"
        " --module scripts.stages.read_code {params.skip} {params.hang}"
        " --upstream {input.env:q} {input.export:q} --artifact {output.code:q}"
        " -- {params.python} -m scripts.stages.read_code --program {input.program:q}"
        " {params.target} --out {output.code:q}"


rule compile_time:
    """Where the time of iree-compile goes for the selected programs and targets, under results/compile_time/."""
    input:
        PLAN["profile"].compile_times(),


rule profile_compile:
    """The time of each pass, phase and executable of a compilation, and which executable hangs."""
    input:
        **JOBS.environment("profile_compile"),
        program=artifact("export", "program.mlir"),
        export=artifact("export", "status.json"),
        compiled=artifact("compile", "status.json"),
    output:
        times=artifact("profile_compile", "compile.json"),
        status=artifact("profile_compile", "status.json"),
    log:
        artifact("profile_compile", "log.txt"),
    conda:
        "../../envs/iree.yaml"
    threads: JOBS.slot_threads()
    resources:
        **JOBS.asks("profile_compile"),
    params:
        **JOBS.params("profile_compile"),
        target=of_cell(PLAN.options.compile),
    shell:
        f"{SUPERVISE}"
        " --module scripts.stages.profile_compile {params.skip}"
        " --upstream {input.env:q} {input.export:q} --artifact {output.times:q}"
        " -- {params.python} -m scripts.stages.profile_compile --program {input.program:q}"
        f" --locations {LOCATIONS}"
        " {params.target} --compiled {input.compiled:q} --limit-s {resources.timeout_s}"
        " --out {output.times:q}"
