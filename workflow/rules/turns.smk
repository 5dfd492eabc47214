"""Toolchains in turns: the modules of a cell are timed in alternation, so that compilers are compared and not minutes."""


rule measure_turns:
    """The modules of all toolchains for one cell, timed in turns."""
    input:
        **environment("turns"),
        before=of_cell(PLAN.in_turns.statuses),
        measurements=of_cell(lambda w: PLAN.in_turns.files(w, "measurement.json")),
    output:
        turns=artifact("turns", "turns.json"),
        status=artifact("turns", "status.json"),
    log:
        artifact("turns", "log.txt"),
    # After the second rounds.
    priority: -4
    group:
        together(lambda w: measured_on(PLAN.in_turns.target(w).node))
    conda:
        f"../../envs/{MATRIX.reference_env}.yaml"
    threads: measuring_threads(prepares=False)
    resources:
        **asks("turns"),
        **alone_on(PLAN.in_turns.target),
    params:
        **stage_params("turns"),
        sides=of_cell(PLAN.in_turns.sides),
        worker_threads=of_cell(lambda w: PLAN.options.threads(w.target)),
    # A toolchain without a latency is left out, so no measurement has to be ok.
    shell:
        SUPERVISE + " --module scripts.measure_turns --upstream {input.env:q}"
        " --artifact {output.turns:q}"
        " -- {params.python} -m scripts.measure_turns {params.sides} {params.worker_threads}"
        " --out {output.turns:q}"
