"""`snakemake results/kernels.csv`: kernels by shape and runtime, with plots. The stages are those of models."""


rule kernels:
    """The rows, page and plots of all kernels."""
    input:
        "results/kernels.csv",


rule aggregate_kernels:
    """results/kernels.csv, its page and its plots."""
    input:
        PLAN["kernels"].results(),
    output:
        report(
            PLAN["kernels"].plots(),
            category="Kernels",
            labels={"what": "GB/s by shape"},
            caption="../report/kernels.rst",
        ),
        csv=report(
            "results/kernels.csv",
            category="Kernels",
            labels={"what": "rows"},
            caption="../report/kernels.rst",
        ),
        jsonl="results/kernels.jsonl",
        md="results/kernels.md",
    log:
        "results/logs/kernels.txt",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        python=PLAN.report_python(),
        matrix=PLAN["kernels"].digest(),
        code=PLAN["kernels"].measuring_code(),
        due=outputs.due(outputs.files_of("kernels")),
        gate=GATE.param(),
    shell:
        aggregated("--set kernels")
