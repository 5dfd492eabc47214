"""`snakemake results/coverage.md` and `results/report.html`, made from the records."""


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
        "{params.python} -m scripts.tools.report.report_coverage --results {input:q}"
        " --out-md {output.md:q} --out-csv {output.csv:q} > {log:q} 2>&1"


from scripts.tools.report import page_inputs


rule report:
    """A short name for results/report.html."""
    input:
        "results/report.html",


rule write_report:
    """results/report.html: all rows with charts, failures by cause and details, in one file."""
    input:
        "results/results.jsonl",
    output:
        report(
            "results/report.html",
            category="Latency",
            labels={"what": "all rows, with charts and failures"},
            caption="../report/report.rst",
        ),
    log:
        "results/logs/report.txt",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        python=PLAN.report_python(),
        data=lambda w: page_inputs.data(),
        code=lambda w: page_inputs.code(),
    shell:
        f"{PREFIX}"
        "{params.python} -m scripts.tools.report.write_report --results {input:q} --out {output:q}"
        " 2>&1 | tee {log:q}"
