"""The second round: each row is measured again when everything else is done, minutes later.

A slow minute of the machine then does not affect only one of two rows that are compared. A second round
depends on the first round of its own row and on nothing else.
"""


use rule measure_iree as measure_iree_again with:
    """A module timed again: the second round."""
    input:
        **environment("measure_again"),
        **after_first("measure"),
        **started_from(),
        vmfb=compiled()["vmfb"],
    output:
        measurement=artifact("measure_again", "measurement.json"),
        status=artifact("measure_again", "status.json"),
    log:
        artifact("measure_again", "log.txt"),
    priority: -3
    resources:
        **asks("measure_again"),
        **alone_on(PLAN.target),
    params:
        **stage_params("measure_again"),
        first="--first " + artifact("measure", "measurement.json"),


use rule measure_baseline as measure_baseline_again with:
    """A baseline timed again: the second round."""
    input:
        **environment("baseline_again"),
        **model_files(),
        **(compared_with() | after_first("baseline")),
        program=lambda w: PLAN.program(w, "program.mlir"),
        export=lambda w: PLAN.program(w, "status.json"),
    output:
        measurement=artifact("baseline_again", "measurement.json"),
        status=artifact("baseline_again", "status.json"),
    log:
        artifact("baseline_again", "log.txt"),
    priority: -3
    # As many as an ordinary job has: with fewer, it would start in a gap that is too small for a build,
    # before the build and regardless of the priorities.
    threads: measuring_threads(prepares=False)
    resources:
        **asks("baseline_again"),
        **alone_on(PLAN.baseline),
    params:
        **stage_params("baseline_again"),
        first="--first " + artifact("baseline", "measurement.json"),
