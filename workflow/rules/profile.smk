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
    """Profiles of the selected rows on CPUs and the code of IREE's, under results/profile/ and results/code/."""
    input:
        PLAN["profile"].profiles(),


rule profile_group:
    """The time of each dispatch and kernel of the rows of a group, with the operators and nn.Modules that it is of, in turns."""
    input:
        before=of_cell(lambda cell: PLAN["profile"].verified(cell, "status.json")),
        verified=of_cell(
            lambda cell: PLAN["profile"].verified(cell, "verification.json")
        ),
    output:
        profiles=artifact("profile", "profiles.json"),
        status=artifact("profile", "status.json"),
    log:
        artifact("profile", "log.txt"),
    conda:
        "../../envs/report.yaml"
    threads: JOBS.all_threads()
    resources:
        **JOBS.asks("profile"),
        **JOBS.alone_on(PLAN.groups.on_device),
    params:
        **JOBS.params("profile"),
        request=of_cell(PLAN["profile"].request),
    # A row that is not verified is left out, so no verification has to be ok.
    shell:
        requested(
            "profile",
            makes="profiles",
            python="python",
            values={"memory_mb": "{resources.memory_mb}"},
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
