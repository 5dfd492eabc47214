"""Times the verified rows of a model in turns, while nothing else runs on the machine."""


rule time_group:
    """The rows of a model, device, number of threads and test, timed in turns."""
    input:
        before=of_cell(lambda cell: PLAN.groups.files(cell, "status.json")),
        verified=of_cell(lambda cell: PLAN.groups.files(cell, "verification.json")),
    output:
        timing=artifact("time", "timing.json"),
        status=artifact("time", "status.json"),
    log:
        artifact("time", "log.txt"),
    # After all other stages: it waits until they have ended, and a core is idle during that time.
    priority: -2
    group:
        JOBS.group_on("measure", PLAN.groups.on_device)
    conda:
        "../../envs/report.yaml"
    threads: JOBS.all_threads()
    resources:
        **JOBS.asks("time"),
        **JOBS.alone_on(PLAN.groups.on_device),
    params:
        **JOBS.params("time"),
        request=of_cell(PLAN.groups.request),
    # A member that is not verified is left out, so no verification has to be ok.
    shell:
        requested("time", makes="timing", python="python")
