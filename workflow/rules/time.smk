"""Times the verified rows of a model in turns, while nothing else runs on the machine."""


rule time_group:
    """The rows of a model, device, number of threads and test, timed in turns."""
    input:
        before=of_cell(lambda w: PLAN.groups.files(w, "status.json")),
        verified=of_cell(lambda w: PLAN.groups.files(w, "verification.json")),
    output:
        timing=artifact("time", "timing.json"),
        status=artifact("time", "status.json"),
    log:
        artifact("time", "log.txt"),
    # After all other stages: it waits until they have ended, and a core is idle during that time.
    priority: -2
    group:
        together(lambda w: group_on("measure", PLAN.groups.on_device(w).node))
    conda:
        "../../envs/report.yaml"
    threads: all_threads()
    resources:
        **asks("time"),
        **alone_on(PLAN.groups.on_device),
    params:
        **stage_params("time"),
        group=of_cell(PLAN.groups.given),
    # A member that is not verified is left out, so no verification has to be ok.
    shell:
        f"{SUPERVISE_TIMING}"
        " --module scripts.stages.time_group scripts.stages.time_module --group {params.group:q}"
        " --artifact {output.timing:q}"
