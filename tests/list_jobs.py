"""Prints every job of a run as a line of JSON: what it reads, writes and requests, and its command.

python tests/list_jobs.py results/latency.csv --config tests=eval,train, in a folder without results. A refactoring
keeps these lines equal, but for what it says that it changes (tests/unit/test_same_jobs.py).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from snakemake.api import SnakemakeApi
from snakemake.cli import parse_config
from snakemake.settings.types import (
    ConfigSettings,
    DAGSettings,
    OutputSettings,
    Quietness,
    RerunTrigger,
    ResourceSettings,
)

ANYWHERE = {
    re.escape(sys.executable): "python",
    re.escape(str(Path(__file__).resolve().parents[1])): "CHECKOUT",
    r"--owner \d+": "--owner PID",
    r"--memory \d+": "--memory MB",
    r"--cores \d+": "--cores CORES",
    r"--due '?([0-9a-f]{12}|\d+(~[0-9a-f]{6})?)'?": "--due DUE",
}
"""What depends on the machine, the folder or the code: regular expressions and what stands for them."""
NOT_FROZEN = ("due", "code", "matrix", "machine")
"""Params that are digests of the project's code, or of everything that a run covers, or name the machine."""
OF_THE_MACHINE = ("mem", "mem_mb", "mem_mib", "memory_mb", "tmpdir", "_cores")
"""Resources that are shares of this machine."""


def anywhere(text: str) -> str:
    """The text without what depends on the machine, the folder or the code."""
    for pattern, instead in ANYWHERE.items():
        text = re.sub(pattern, instead, text)
    return text


def plain(value: Any) -> Any:
    """A value of a job as JSON has it."""
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    return value if isinstance(value, int | float | None) else anywhere(str(value))


def jobs(targets: list[str], config: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the jobs that a dry run of these targets has, in no order."""
    with SnakemakeApi(OutputSettings(dryrun=True, quiet={Quietness.ALL})) as api:
        workflow = api.workflow(
            resource_settings=ResourceSettings(cores=8),
            config_settings=ConfigSettings(config=parse_config(config)),
            snakefile=Path("Snakefile"),
            workdir=Path.cwd(),
        )
        triggers = {RerunTrigger.MTIME, RerunTrigger.PARAMS, RerunTrigger.INPUT}
        dag = workflow.dag(DAGSettings(targets=set(targets), rerun_triggers=triggers))
        dag.execute_workflow(executor="dryrun")
        for job in workflow._workflow.dag.jobs:
            resources = {k: v for k, v in job.resources.items() if k not in OF_THE_MACHINE}
            yield {
                "rule": job.rule.name,
                "wildcards": dict(job.wildcards_dict),
                "input": plain(list(job.input)),
                "named": {name: plain(files) for name, files in job.input.items()},
                "output": plain(list(job.output)),
                "log": plain(list(job.log)),
                "params": {k: plain(v) for k, v in job.params.items() if k not in NOT_FROZEN},
                "resources": {name: plain(value) for name, value in resources.items()},
                "priority": plain(job.priority),
                "command": anywhere(job.shellcmd or ""),
            }


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("targets", nargs="+")
    parser.add_argument("--config", nargs="*", default=[])
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(argv)
    lines = (json.dumps(job, sort_keys=True) for job in jobs(given.targets, given.config))
    given.out.write_text("".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
