"""The rows of all operator problems: results/operators.csv, operators.md and operators/operators.jsonl."""


rule aggregate_operators:
    """results/operators.csv: every operator problem, on each lowering path and under each baseline."""
    input:
        PLAN["operators"].results(),
        source="results/operators/source.json",
        batches=expand(
            "results/operators/batches/{batch}.jsonl",
            batch=PLAN["operators"].batches(),
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
        due=outputs.due(feature.LOADED["operators"].tables),
        gate=GATE.param(),
    # Its errors go to the terminal too: on a full disk, there is no log.
    shell:
        f"{PREFIX}"
        "{params.python} -m scripts.stages.aggregate_operators --matrix results/logs/matrix.json"
        " --source {input.source:q} --out-csv {output.csv:q} --out-jsonl {output.jsonl:q} --out-md {output.md:q}"
        " --due {params.due}"
        " 2>&1 | tee {log:q}"
