"""Random graphs in parts, for a cluster: `vmfbench run results/fuzz.csv --config fuzz='{parts: 8, minutes: 60}' -- --profile …`.

Each part runs its share of the graphs, on a node. All write into results/fuzz/, where each sees what the others have found.
"""

from scripts.tools.fuzz import fuzz

FUZZ = {"parts": 1, "minutes": 10, "options": "", **_declared.get("fuzz", {})}
FUZZED = f"{PREFIX}{{params.python}} -m scripts.tools.fuzz.fuzz {{params.options}}"


rule start_fuzz:
    """Checks the options of `vmfbench fuzz`, before any part starts."""
    output:
        touch("results/fuzz/started.txt"),
    log:
        "results/logs/start_fuzz.txt",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        python=PLAN.report_python(),
        options=FUZZ["options"],
    shell:
        f"{FUZZED} --minutes 0 --part 1/1 2>&1 | tee {{log:q}}"


rule fuzz_part:
    """The graphs of a part. `--forcerun fuzz_part` goes on with more graphs."""
    input:
        "results/fuzz/started.txt",
    output:
        touch("results/fuzz/part-{part}.txt"),
    log:
        "results/logs/fuzz_part/{part}.txt",
    conda:
        "../../envs/report.yaml"
    threads: JOBS.slot_threads()
    resources:
        mem_mb=lambda wildcards, threads: threads * fuzz.MEMORY_MB,
        runtime=fuzz.runtime_minutes(FUZZ["minutes"]),
    params:
        python=PLAN.report_python(),
        options=FUZZ["options"],
        minutes=FUZZ["minutes"],
        parts=FUZZ["parts"],
    shell:
        f"{FUZZED} --minutes {{params.minutes}} --cores {{threads}}"
        " --part {wildcards.part}/{params.parts} 2>&1 | tee {log:q}"


rule aggregate_fuzz:
    """results/fuzz.csv: the causes of the failures of all parts."""
    input:
        expand("results/fuzz/part-{part}.txt", part=range(1, FUZZ["parts"] + 1)),
    output:
        csv="results/fuzz.csv",
        md="results/fuzz.md",
        jsonl="results/fuzz.jsonl",
    log:
        "results/logs/fuzz.txt",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        python=PLAN.report_python(),
        options=FUZZ["options"],
    shell:
        f"{FUZZED} --minutes 0 2>&1 | tee {{log:q}}"
