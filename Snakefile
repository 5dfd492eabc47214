"""vmfbench: PyTorch models along every lowering path to an IREE module, verified and timed.

snakemake --cores 8 results/latency.csv
"""

from snakemake.utils import min_version

min_version("9.27")


# Reads config.yaml itself, before Snakemake does: a mistake in it is named with its line.
include: "workflow/rules/common.smk"


configfile: checkout.path("config.yaml")


report: "workflow/report/workflow.rst"


include: "workflow/rules/env.smk"
include: "workflow/rules/reference.smk"
include: "workflow/rules/export.smk"
include: "workflow/rules/compile.smk"
include: "workflow/rules/verify.smk"
include: "workflow/rules/baseline.smk"
include: "workflow/rules/time.smk"
include: "workflow/rules/aggregate.smk"
include: "workflow/rules/clean.smk"


# The rules of features: workflow/rules/<feature>.smk (scripts/tools/registry.py lists the features).
for file in registry.rule_files():

    include: file


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
