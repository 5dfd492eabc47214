"""`snakemake results/coverage.md`, `results/report.html` and `plots`, made from the records."""


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


from scripts.features.report import page_inputs


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
        "{params.python} -m scripts.stages.write_report --results {input:q} --out {output:q}"
        " 2>&1 | tee {log:q}"


rule plot_results:
    """results/plots/: mean speed-ups, latency by model, IREE against inductor, and threads, as SVG and PNG."""
    input:
        "results/results.jsonl",
    output:
        report(
            "results/plots/speedups.svg",
            category="Latency",
            labels={"what": "geometric means"},
            caption="../report/speedups.rst",
        ),
        report(
            "results/plots/latency.svg",
            category="Latency",
            labels={"what": "by model"},
            caption="../report/latency.rst",
        ),
        report(
            "results/plots/scatter.svg",
            category="Latency",
            labels={"what": "IREE against inductor"},
            caption="../report/scatter.rst",
        ),
        report(
            "results/plots/threads.svg",
            category="Latency",
            labels={"what": "by number of threads"},
            caption="../report/threads.rst",
        ),
        "results/plots/speedups.png",
        "results/plots/latency.png",
        "results/plots/scatter.png",
        "results/plots/threads.png",
    log:
        "results/logs/plots.txt",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        python=PLAN.report_python(),
    shell:
        f"{PREFIX}"
        "{params.python} -m scripts.stages.plot_results --results {input:q} --out results/plots"
        " > {log:q} 2>&1"


rule plots:
    """A short name for the files in results/plots/."""
    input:
        rules.plot_results.output,
