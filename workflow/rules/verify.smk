"""Compares a module's results with golden on its device."""


rule verify_iree:
    """A module loaded, called and verified on its device."""
    input:
        **JOBS.environment("verify"),
        **JOBS.compiled(),
        **JOBS.started_from(),
        exported=of_cell(PLAN.exported),
    output:
        verification=artifact("verify", "verification.json"),
        status=artifact("verify", "status.json"),
    log:
        artifact("verify", "log.txt"),
    # Before further builds, so that a run soon shows rows that are verified.
    priority: 1
    group:
        JOBS.group_on("verify", PLAN.target)
    conda:
        "../../envs/iree.yaml"
    threads: JOBS.slot_threads()
    resources:
        **JOBS.asks("verify"),
        **JOBS.verified_on(PLAN.target),
    params:
        **JOBS.params("verify"),
        request=of_cell(PLAN.requests.verify),
    shell:
        requested(
            "verify",
            files="weights inputs golden signature",
            lists="vmfb exported",
            after="env before",
            makes="verification",
        )
