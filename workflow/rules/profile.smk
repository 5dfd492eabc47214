"""`snakemake profile`: where the time of a call goes, by dispatch and nn.Module. Rows do not change."""


rule profile:
    """Profiles of the selected CPU cells, and of eager and inductor, under results/profile/."""
    input:
        PLAN.profiles(),


rule profile_baseline:
    """Time of each nn.Module in eager mode or under inductor."""
    input:
        **environment("profile_baseline"),
        **model_files(),
        **compared_with(),
    output:
        profile=artifact("profile_baseline", "profile.json"),
        status=artifact("profile_baseline", "status.json"),
    log:
        artifact("profile_baseline", "log.txt"),
    conda:
        of_cell(lambda w: f"../../envs/{PLAN.baseline(w).env}.yaml")
    threads: all_threads()
    resources:
        **asks("profile_baseline"),
        **alone_on(PLAN.baseline),
    params:
        **stage_params("profile_baseline"),
        runtime=of_cell(lambda w: PLAN.baseline(w).runtime),
        step=of_cell(PLAN.options.step),
    shell:
        SUPERVISE
        + " --module scripts.stages.profile_baseline scripts.baselines.{params.runtime}"
        " {params.skip} --upstream {input.env:q} {input.before:q}"
        " --artifact {output.profile:q}"
        " -- {params.python} -m scripts.stages.profile_baseline"
        + LOAD_MODEL
        + " {params.step} --weights {input.weights:q} --inputs {input.inputs:q}"
        " --golden {input.golden:q} --signature {input.signature:q}"
        " --out {output.profile:q}"


rule profile_iree:
    """Time of each dispatch of a module, and the operators and nn.Modules that it is of."""
    input:
        **environment("profile_iree"),
        **started_from("weights", "inputs", "signature"),
        program=artifact("export", "program.mlir"),
        vmfb=of_cell(lambda w: PLAN.module(w, "module.vmfb")),
        before=of_cell(lambda w: PLAN.module(w, "status.json")),
    output:
        profile=artifact("profile_iree", "profile.json"),
        status=artifact("profile_iree", "status.json"),
    log:
        artifact("profile_iree", "log.txt"),
    conda:
        "../../envs/iree.yaml"
    threads: all_threads()
    resources:
        **asks("profile_iree"),
        **alone_on(PLAN.target),
    params:
        **stage_params("profile_iree"),
        target=of_cell(PLAN.options.compile),
        device=of_cell(lambda w: PLAN.target(w).device),
        worker_threads=of_cell(lambda w: PLAN.options.threads(w.target)),
    shell:
        SUPERVISE + " --module scripts.stages.profile_iree {params.skip}"
        " --upstream {input.env:q} {input.before:q} --artifact {output.profile:q}"
        " -- {params.python} -m scripts.stages.profile_iree --program {input.program:q}"
        f" --locations {LOCATIONS}"
        " {params.target} --vmfb {input.vmfb:q}"
        " --weights {input.weights:q} --inputs {input.inputs:q}"
        " --signature {input.signature:q}"
        " --device {params.device:q} {params.worker_threads}"
        " --out {output.profile:q}"
