"""The job graph and the files of the synthetic matrix as a plain Snakefile: string inputs alone.

benchmarks/matrix_scale.py compares the real Snakefile with it. Nothing of this project is imported.
"""

from pathlib import Path


configfile: "config.yaml"


MODELS = sorted(path.stem for path in Path("models").glob("*.py"))
TARGETS = [f"t{number}" for number in range(config["targets"])]
FILES = (
    "time/{model}/cpu/eval/status.json",
    "time/{model}/cpu/eval/timing.json",
    "verify/{model}/stub/{target}/status.json",
    "verify/{model}/stub/{target}/verification.json",
    "compile/{model}/stub/{target}/report.json",
    "export/{model}/stub/report.json",
)
# What the aggregate is made of, the files of each cell together.
ROWS = list(
    dict.fromkeys(
        f"results/{file.format(model=model, target=target)}"
        for model in MODELS
        for target in TARGETS
        for file in FILES
    )
) + ["results/machine_limits/cpu/limits.json"]


wildcard_constraints:
    device="[^/@]+",
    env="[^/@]+",
    model="[^/@]+",
    frontend="[^/@]+",
    target="[^/@]+",


rule aggregate_results:
    input:
        ROWS,
    output:
        csv="results/latency.csv",
        jsonl="results/results.jsonl",
    log:
        "results/logs/aggregate.txt",
    shell:
        "touch {output}"


rule make_env:
    input:
        "envs/{env}.yaml",
    output:
        versions=".venvs/{env}/versions.json",
        status="results/env/{env}/status.json",
    log:
        "results/env/{env}/log.txt",
    shell:
        "touch {output}"


rule measure_machine_limits:
    input:
        packages=".venvs/torch-mlir/versions.json",
        env="results/env/torch-mlir/status.json",
    output:
        limits="results/machine_limits/{device}/limits.json",
        status="results/machine_limits/{device}/status.json",
    log:
        "results/machine_limits/{device}/log.txt",
    shell:
        "touch {output}"


rule make_reference:
    input:
        packages=".venvs/torch-mlir/versions.json",
        env="results/env/torch-mlir/status.json",
        model_file="models/{model}.py",
    output:
        weights="results/reference/{model}/weights.irpa",
        inputs="results/reference/{model}/inputs.npz",
        golden="results/reference/{model}/golden.npz",
        signature="results/reference/{model}/signature.json",
        status="results/reference/{model}/status.json",
    log:
        "results/reference/{model}/log.txt",
    shell:
        "touch {output}"


rule export_program:
    input:
        packages=".venvs/torch-mlir/versions.json",
        env="results/env/torch-mlir/status.json",
        model_file="models/{model}.py",
        signature="results/reference/{model}/signature.json",
        reference="results/reference/{model}/status.json",
    output:
        program="results/export/{model}/{frontend}/program.mlir",
        report="results/export/{model}/{frontend}/report.json",
        status="results/export/{model}/{frontend}/status.json",
    log:
        "results/export/{model}/{frontend}/log.txt",
    shell:
        "touch {output}"


rule compile_iree:
    input:
        packages=".venvs/iree/versions.json",
        env="results/env/iree/status.json",
        program="results/export/{model}/{frontend}/program.mlir",
        export="results/export/{model}/{frontend}/status.json",
    output:
        vmfb="results/compile/{model}/{frontend}/{target}/module.vmfb",
        report="results/compile/{model}/{frontend}/{target}/report.json",
        status="results/compile/{model}/{frontend}/{target}/status.json",
    log:
        "results/compile/{model}/{frontend}/{target}/log.txt",
    shell:
        "touch {output}"


rule verify_iree:
    input:
        packages=".venvs/iree/versions.json",
        env="results/env/iree/status.json",
        vmfb="results/compile/{model}/{frontend}/{target}/module.vmfb",
        compile="results/compile/{model}/{frontend}/{target}/status.json",
        weights="results/reference/{model}/weights.irpa",
        inputs="results/reference/{model}/inputs.npz",
        golden="results/reference/{model}/golden.npz",
        signature="results/reference/{model}/signature.json",
    output:
        verification="results/verify/{model}/{frontend}/{target}/verification.json",
        status="results/verify/{model}/{frontend}/{target}/status.json",
    log:
        "results/verify/{model}/{frontend}/{target}/log.txt",
    shell:
        "touch {output}"


rule time_group:
    input:
        before=expand(
            "results/verify/{{model}}/stub/{target}/status.json", target=TARGETS
        ),
        verified=expand(
            "results/verify/{{model}}/stub/{target}/verification.json", target=TARGETS
        ),
    output:
        timing="results/time/{model}/cpu/eval/timing.json",
        status="results/time/{model}/cpu/eval/status.json",
    log:
        "results/time/{model}/cpu/eval/log.txt",
    shell:
        "touch {output}"
