"""vmfbench: PyTorch models along every lowering path to an IREE module, verified and timed.

snakemake --cores 8 results/latency.csv
"""

from snakemake.utils import min_version

min_version("9.27")


# Reads config.yaml itself, before Snakemake does: a mistake in it is named with its line.
include: "workflow/rules/common.smk"


configfile: checkout.path("config.yaml")


report: "workflow/report/workflow.rst"


include: "workflow/rules/stages.smk"
include: "workflow/rules/resources.smk"
include: "workflow/rules/env.smk"
include: "workflow/rules/machine_limits.smk"
include: "workflow/rules/reference.smk"
include: "workflow/rules/gradients.smk"
include: "workflow/rules/trace.smk"
include: "workflow/rules/export.smk"
include: "workflow/rules/compile.smk"
include: "workflow/rules/remedy.smk"
include: "workflow/rules/verify.smk"
include: "workflow/rules/baseline.smk"
include: "workflow/rules/time.smk"
include: "workflow/rules/aggregate.smk"
include: "workflow/rules/coverage.smk"
include: "workflow/rules/operators.smk"
include: "workflow/rules/operators_report.smk"
include: "workflow/rules/kernels.smk"
include: "workflow/rules/tune.smk"
include: "workflow/rules/dumps.smk"
include: "workflow/rules/profile.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/clean.smk"


rule all:
    """The default target: results/latency.csv and results/results.jsonl."""
    default_target: True
    input:
        "results/latency.csv",
        "results/latency.md",
        "results/results.jsonl",


onstart:
    start_run()


onsuccess:
    end_run()
    check_gate()


onerror:
    end_run()
