"""What a device can do at most, once per machine and number of threads. `snakemake machine_limits`."""

from scripts.core.machine import cpu_name


rule machine_limits:
    """The bandwidth and the largest products of this machine's CPU."""
    input:
        PLAN.aggregation.machine_limits(PLAN.cpus()),


rule measure_machine_limits:
    """The bandwidth of a device's memory, and its largest products."""
    input:
        **environment("machine_limits"),
    output:
        limits=artifact("machine_limits", "limits.json"),
        status=artifact("machine_limits", "status.json"),
    log:
        artifact("machine_limits", "log.txt"),
    # With the measurements: it is timed while nothing else runs.
    priority: -1
    group:
        together(lambda w: group_on("measure", PLAN.on_device(w).node))
    conda:
        f"../../envs/{MATRIX.reference_env}.yaml"
    threads: all_threads()
    resources:
        **asks("machine_limits"),
        **alone_on(PLAN.on_device),
    params:
        **stage_params("machine_limits"),
        worker_threads=of_cell(lambda w: PLAN.options.threads(w.device)),
        # Another machine has other limits. On a cluster, it is not known which node will run this.
        machine=(
            f"{cpu_name()}, {job_resources.usable_cores()} cores" if ALL_HERE else ""
        ),
    shell:
        f"{SUPERVISE}"
        " --module scripts.stages.measure_machine_limits"
        " --upstream {input.env:q}"
        " --artifact {output.limits:q}"
        " -- {params.python} -m scripts.stages.measure_machine_limits --device {wildcards.device}"
        " {params.worker_threads} --out {output.limits:q}"
