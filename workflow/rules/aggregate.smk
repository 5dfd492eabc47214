"""The rows of all cells: results/latency.csv, latency.md and results.jsonl."""


rule aggregate_results:
    """results/latency.csv and results/results.jsonl: a row per cell and per baseline."""
    input:
        PLAN.aggregation.results(),
        imported=outputs.imported(),
        cpu="results/cpu/latency.csv" if RUN_HAS_CPU_FIRST else [],
    output:
        csv=report(
            "results/latency.csv",
            category="Latency",
            labels={"what": "rows"},
            caption="../report/rows.rst",
        ),
        jsonl="results/results.jsonl",
        md="results/latency.md",
    log:
        "results/logs/aggregate.txt",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        python=PLAN.report_python(),
        matrix=PLAN.aggregation.digest(),
        code=PLAN.aggregation.measuring_code(),
        due=outputs.due(outputs.FILES),
        gate=GATE.param(),
    shell:
        aggregated()


rule aggregate_cpu:
    """The rows on the CPU in results/cpu/, as soon as they are there, in a run that has other rows too."""
    input:
        PLAN.aggregation.of_rows(MATRIX.on_cpu().rows()),
    output:
        csv="results/cpu/latency.csv",
        jsonl="results/cpu/results.jsonl",
        md="results/cpu/latency.md",
    log:
        "results/logs/aggregate_cpu.txt",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        python=PLAN.report_python(),
        matrix=PLAN.aggregation.digest(on_cpu=True),
        code=PLAN.aggregation.measuring_code(),
        due=outputs.due(outputs.CPU_FILES),
    shell:
        aggregated("--out results/cpu")


rule check:
    """Compare the rows with `expect:` of the configuration; exit with 1 if they differ."""
    input:
        "results/results.jsonl",
    log:
        "results/logs/check.txt",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        python=PLAN.report_python(),
        matrix=PLAN.aggregation.digest(),
    shell:
        f"{PREFIX}"
        "{params.python} -m scripts.stages.check_expectations --results {input:q} 2>&1 | tee {log:q}"
