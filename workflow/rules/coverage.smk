"""`snakemake results/coverage.md`: the last stage of every IREE cell, and why cells stop."""


rule coverage:
    """A short name for results/coverage.md."""
    input:
        "results/coverage.md",


rule report_coverage:
    """results/coverage.md and coverage.csv: the last stage of every cell, and why it stopped."""
    input:
        "results/results.jsonl",
    output:
        md="results/coverage.md",
        csv=report(
            "results/coverage.csv",
            category="Coverage",
            labels={"what": "cells"},
            caption="../report/coverage.rst",
        ),
    log:
        "results/logs/coverage.txt",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        python=PLAN.report_python(),
    shell:
        f"{PREFIX}"
        "{params.python} -m scripts.stages.report_coverage --results {input:q}"
        " --out-md {output.md:q} --out-csv {output.csv:q} > {log:q} 2>&1"
