"""Operator problems, in batches: selected, then through the same stages as models; and traces of models.

Each problem of a batch has an outcome of its own, in outcomes.jsonl. A batch runs again if one of its
problems has to; the others are not handled again.
"""


rule traces:
    """The operator traces of all selected models."""
    input:
        expand("results/operators/traces/{model}.txt", model=MATRIX.models),


rule trace_operators:
    """The operators that a model calls in eval and training, as a trace file."""
    input:
        **JOBS.environment("trace"),
        **JOBS.model_files(),
    output:
        trace="results/operators/traces/{model}.txt",
        status=artifact("trace", "status.json"),
    log:
        artifact("trace", "log.txt"),
    group:
        JOBS.together("reference")
    conda:
        f"../../envs/{MATRIX.reference_env}.yaml"
    threads: JOBS.slot_threads()
    resources:
        **JOBS.asks("trace"),
        **JOBS.beside_others(),
    params:
        **JOBS.params("trace"),
        request=of_cell(PLAN.requests.reference),
    shell:
        requested(
            "trace",
            files="model_file",
            after="env",
            makes="trace",
            values=JOBS.load_threads,
        )


rule select_operators:
    """The operator problems of this run, all of them and by batch."""
    input:
        traces=PLAN["operators"].traced(),
        dataset=PLAN["operators"].dataset_files(),
    output:
        problems="results/operators/problems.jsonl",
        source="results/operators/source.json",
        batches=expand(
            "results/operators/batches/{batch}.jsonl",
            batch=PLAN["operators"].part.batch_names(),
        ),
    log:
        "results/logs/select_operators.txt",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        python=PLAN.report_python(),
        source=PLAN["operators"].source(),
    shell:
        f"{PREFIX}"
        "{params.python} -m scripts.tools.operators.select_operators --source {params.source:q}"
        " --traces {input.traces:q} --out results/operators 2>&1 | tee {log:q}"


rule make_operator_references:
    """Inputs, golden outputs and signatures of a batch of problems."""
    input:
        **JOBS.environment("operator_reference"),
        **PLAN["operators"].batch_of_problems(),
    output:
        outcomes=artifact("operator_reference", "outcomes.jsonl"),
        status=artifact("operator_reference", "status.json"),
    log:
        artifact("operator_reference", "log.txt"),
    group:
        JOBS.together("build-{batch}")
    conda:
        f"../../envs/{MATRIX.reference_env}.yaml"
    threads: JOBS.slot_threads()
    resources:
        **JOBS.asks("operator_reference"),
        **JOBS.beside_others(),
    params:
        **JOBS.params("operator_reference"),
        request=of_cell(lambda cell: "{}"),
    shell:
        of_batch(
            "operator_reference",
            files="problems",
            after="env",
            makes="outcomes",
        )


rule export_operators:
    """The programs of a batch of problems by one frontend."""
    input:
        **JOBS.environment("operator_export"),
        **PLAN["operators"].batch_of_problems("operator_reference"),
    output:
        outcomes=artifact("operator_export", "outcomes.jsonl"),
        status=artifact("operator_export", "status.json"),
    log:
        artifact("operator_export", "log.txt"),
    group:
        JOBS.together("build-{batch}")
    conda:
        of_cell(lambda cell: f"../../envs/{PLAN.frontend(cell).env}.yaml")
    threads: JOBS.slot_threads()
    resources:
        **JOBS.asks("operator_export"),
        **JOBS.beside_others(),
    params:
        **JOBS.params("operator_export"),
        request=of_cell(PLAN["operators"].export_request),
    shell:
        of_batch(
            "operator_export",
            files="problems",
            lists="before",
            after="env upstream",
            makes="outcomes",
        )


rule compile_operators:
    """The modules of a batch of programs for one target."""
    input:
        **JOBS.environment("operator_compile"),
        **PLAN["operators"].batch_of_problems("operator_export"),
    output:
        outcomes=artifact("operator_compile", "outcomes.jsonl"),
        status=artifact("operator_compile", "status.json"),
    log:
        artifact("operator_compile", "log.txt"),
    group:
        JOBS.together("build-{batch}")
    conda:
        "../../envs/iree.yaml"
    threads: JOBS.slot_threads()
    resources:
        **JOBS.asks("operator_compile"),
        **JOBS.beside_others(),
    params:
        **JOBS.params("operator_compile"),
        request=of_cell(PLAN["operators"].compile_request),
    shell:
        of_batch(
            "operator_compile",
            files="problems",
            lists="before",
            after="env upstream",
            makes="outcomes",
        )


rule verify_operators:
    """A batch of problems verified on the device of a target."""
    input:
        **JOBS.environment("operator_verify"),
        **PLAN["operators"].batch_of_problems("operator_reference", "operator_compile"),
    output:
        outcomes=artifact("operator_verify", "outcomes.jsonl"),
        status=artifact("operator_verify", "status.json"),
    log:
        artifact("operator_verify", "log.txt"),
    group:
        JOBS.group_on("verify", PLAN["operators"].target)
    conda:
        "../../envs/iree.yaml"
    threads: JOBS.slot_threads()
    resources:
        **JOBS.asks("operator_verify"),
        **JOBS.verified_on(PLAN["operators"].target),
    params:
        **JOBS.params("operator_verify"),
        request=of_cell(PLAN["operators"].verify_request),
    shell:
        of_batch(
            "operator_verify",
            files="problems",
            lists="before",
            after="env upstream",
            makes="outcomes",
        )


rule verify_operator_baseline:
    """A batch of problems verified in one of PyTorch's own runtimes."""
    input:
        **JOBS.environment("operator_baseline"),
        **PLAN["operators"].batch_of_problems("operator_reference"),
    output:
        outcomes=artifact("operator_baseline", "outcomes.jsonl"),
        status=artifact("operator_baseline", "status.json"),
    log:
        artifact("operator_baseline", "log.txt"),
    group:
        JOBS.group_on("verify", PLAN.baseline)
    conda:
        of_cell(lambda cell: f"../../envs/{PLAN.baseline(cell).env}.yaml")
    threads: JOBS.slot_threads()
    resources:
        **JOBS.asks("operator_baseline"),
        **JOBS.verified_on(PLAN.baseline),
    params:
        **JOBS.params("operator_baseline"),
        request=of_cell(PLAN["operators"].baseline_request),
    shell:
        of_batch(
            "operator_baseline",
            files="problems",
            lists="before",
            after="env upstream",
            makes="outcomes",
        )


rule time_operators:
    """The verified rows of a batch on a device; those of a problem are timed in turns."""
    input:
        problems="results/operators/batches/{batch}.jsonl",
        before=of_cell(lambda cell: PLAN["operators"].groups.files(cell, "status.json")),
        verified=of_cell(
            lambda cell: PLAN["operators"].groups.files(cell, "outcomes.jsonl")
        ),
    output:
        outcomes=artifact("operator_time", "outcomes.jsonl"),
        status=artifact("operator_time", "status.json"),
    log:
        artifact("operator_time", "log.txt"),
    # After all other stages, as the timing of models.
    priority: -2
    group:
        JOBS.group_on("measure", PLAN["operators"].groups.on_device)
    conda:
        "../../envs/report.yaml"
    threads: JOBS.all_threads()
    resources:
        **JOBS.asks("operator_time"),
        **JOBS.alone_on(PLAN["operators"].groups.on_device),
    params:
        **JOBS.params("operator_time"),
        request=of_cell(PLAN["operators"].groups.request),
    shell:
        of_batch(
            "operator_time",
            files="problems",
            makes="outcomes",
            python="python",
        )


rule aggregate_operators:
    """results/operators.csv: every operator problem, on each lowering path and under each baseline."""
    input:
        PLAN["operators"].results(),
        source="results/operators/source.json",
        batches=expand(
            "results/operators/batches/{batch}.jsonl",
            batch=PLAN["operators"].part.batch_names(),
        ),
    output:
        csv=report(
            "results/operators.csv",
            category="Operators",
            labels={"what": "rows"},
            caption="../report/operators.rst",
        ),
        jsonl="results/operators/operators.jsonl",
        md="results/operators.md",
    log:
        "results/logs/aggregate_operators.txt",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        python=PLAN.report_python(),
        matrix=PLAN["operators"].digest(),
        due=outputs.due(outputs.files_of("operators")),
        gate=GATE.param(),
    shell:
        aggregated("--set operators")
