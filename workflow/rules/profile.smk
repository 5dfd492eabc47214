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
        request=of_cell(PLAN.requests.dump_baseline),
    shell:
        requested(
            "dump_baseline",
            files="model_file weights inputs golden signature",
            after="env before export",
            makes="listing",
            values=JOBS.load_threads,
        )


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
        request=of_cell(PLAN.requests.dump_iree),
    shell:
        requested("dump_iree", files="program", after="env export", makes="listing")


rule profile:
    """Profiles of the selected CPU cells and their code, and profiles of baselines, under results/profile/ and results/code/."""
    input:
        PLAN["profile"].profiles(),


rule profile_baseline:
    """Time of each kernel of a baseline, with the nodes of the captured graph that it computes."""
    input:
        **JOBS.environment("profile_baseline"),
        **JOBS.model_files(),
        **JOBS.compared_with(),
        program=of_cell(lambda cell: PLAN.program(cell, "program.mlir")),
        export=of_cell(lambda cell: PLAN.program(cell, "status.json")),
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
        request=of_cell(PLAN.requests.profile_baseline),
    shell:
        requested(
            "profile_baseline",
            files="model_file weights inputs golden signature",
            after="env before export",
            makes="profile",
            values=JOBS.load_threads,
        )


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
        request=of_cell(PLAN.requests.profile_iree),
    shell:
        requested(
            "profile_iree",
            files="program vmfb weights inputs signature",
            after="env before",
            makes="profile",
            more=f"--file locations {LOCATIONS}",
        )


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
        request=of_cell(PLAN.requests.compile),
        hang=of_cell(PLAN.modules.hang),
    shell:
        requested(
            "read_code",
            files="program",
            after="env export",
            makes="code",
            more="{params.hang}",
        )


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
        request=of_cell(PLAN.requests.compile),
    shell:
        requested(
            "profile_compile",
            files="program compiled",
            after="env export",
            makes="times",
            values={"limit_s": "{resources.timeout_s}"},
            more=f"--file locations {LOCATIONS}",
        )
