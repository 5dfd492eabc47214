"""What a device can do at most, once per machine and number of threads. `snakemake machine_limits`."""

from scripts.core.machine import cpu_name
from scripts.run.resources import usable_cores


rule machine_limits:
    """The bandwidth and the largest products of this machine's CPU."""
    input:
        PLAN.aggregation.machine_limits(PLAN.cpus()),


rule measure_machine_limits:
    """The bandwidth of a device's memory, and its largest products."""
    input:
        **JOBS.environment("machine_limits"),
    output:
        limits=artifact("machine_limits", "limits.json"),
        status=artifact("machine_limits", "status.json"),
    log:
        artifact("machine_limits", "log.txt"),
    # With the measurements: it is timed while nothing else runs.
    priority: -1
    group:
        JOBS.group_on("measure", PLAN.on_device)
    conda:
        f"../../envs/{MATRIX.reference_env}.yaml"
    threads: JOBS.all_threads()
    resources:
        **JOBS.asks("machine_limits"),
        **JOBS.alone_on(PLAN.on_device),
    params:
        **JOBS.params("machine_limits"),
        request=of_cell(PLAN.requests.machine_limits),
        # Another machine has other limits. On a cluster, it is not known which node will run this.
        machine=(f"{cpu_name()}, {usable_cores()} cores" if JOBS.all_here else ""),
    shell:
        requested("machine_limits", after="env", makes="limits")
