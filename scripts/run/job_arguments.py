"""Command-line options of the commands that run a job of a stage, and the end of such a command."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from scripts.core import checkout, temporary
from scripts.run import fingerprint
from scripts.supervise.job import Interrupted, Job, MoreNeeded

OF_RUN = ("--due", "--journal", "--owner", "--more-time", "--more-memory", "--preload", "--sandbox")
"""Options that a job has as a part of a run. Each takes a value."""


def prefix() -> str:
    """The words before `python -m scripts.…` in the command of a rule, in a folder that is not the checkout."""
    words = "".join(f"{shlex.quote(word)} " for word in checkout.prefix())
    return words.replace("{", "{{").replace("}", "}}")


def in_rule(
    command: str, more_attempts: bool, owner: int, retry: Collection[str] | None = None
) -> str:
    """The command of a rule up to the options of its own stage. `command`: the module of scripts.stages that runs the
    job.

    With `exec`, the supervisor's parent is Snakemake itself (the process `owner`), so it notices when Snakemake is
    killed. `more_attempts`: whether further attempts with larger limits may follow, as they do on a cluster. `retry`:
    of a batch of operator problems, the statuses to retry. They are no param: `due` requests the run, and they select
    problems of it.
    """
    words = (
        f"exec {prefix()}{shlex.quote(sys.executable)} -m scripts.stages.{command}"
        " --stage {params.stage} --cell {params.cell:q}"
        " --status {output.status:q} --log {log:q}"
        " --timeout {resources.timeout_s} --memory {resources.memory_mb}"
        " --preload {resources.preload} --sandbox {resources.sandbox}"
        f" --due {{params.due:q}} --journal results/logs/journal.jsonl --owner {owner}"
    )
    if more_attempts:
        words += " --more-time {resources.more_time} --more-memory {resources.more_memory}"
    if retry is not None:
        statuses = ",".join(sorted(retry))
        words += f" --problems {{input.batch:q}} --pins {{params.pins}} --retry '{statuses}'"
    return words


def parser(command: str, description: str | None) -> argparse.ArgumentParser:
    """Return the parser of such a command, a module of scripts. The values are named as the fields of Job."""
    command_line = argparse.ArgumentParser(
        prog=f"python -m scripts.stages.{command}", description=description
    )

    def option(name: str, text: str, **more: Any) -> None:
        command_line.add_argument(name, help=text, **more)

    option("--stage", "export, compile, verify, …", required=True)
    option("--cell", "for example resnet/torchmlir-torch/vulkan", required=True)
    option("--status", "status.json to write", dest="status_path", required=True, type=Path)
    option("--log", "what the stage prints", dest="log_path", required=True, type=Path)
    option("--timeout", "seconds", dest="timeout_s", required=True, type=float)
    option("--memory", "MiB of the process tree", dest="memory_mb", required=True, type=float)
    option("--skip", "do not run the stage, for this reason", default="")
    option("--hang", "do not run the stage: it is known to hang, for this reason", default="")
    option("--due", "the param `due` of the job, to record", default="")
    option("--module", "modules that the fingerprint covers", nargs="*", default=[])
    option("--owner", "stop when the process with this id ends (default: the parent)", type=int)
    switch = {"type": int, "default": 0, "choices": (0, 1)}
    for what, limit in (("time", "--timeout"), ("memory", "--memory")):
        text = f"1: if {limit} is reached, exit with 75 and no outcome, to run again with more"
        option(f"--more-{what}", text, **switch)
    option("--journal", "JSONL file to which a line of accounting is added", type=Path)
    text = "1: fork the stage from a process of the run that has imported its packages"
    option("--preload", text, **switch)
    option("--sandbox", "1: its model file is not trusted", **switch)
    option("--upstream", "status.json that must be ok", nargs="*", default=[], type=Path)
    files = {"dest": "artifacts", "nargs": "*", "default": [], "type": Path}
    option("--artifact", "file that the stage makes", **files)
    command_line.add_argument(
        "command", nargs=argparse.REMAINDER, help="-- and the stage's command"
    )
    return command_line


def job(args: argparse.Namespace, parsed_by: argparse.ArgumentParser, here: bool = False) -> Job:
    """Return the job of the options. Exits if there is no command after --.

    `here`: the job runs in this process, so its command is this one, without what belongs to the run.
    """
    if here:
        words = iter(sys.argv[1:])
        own = [word for word in words if word not in OF_RUN or next(words, None) is None]
        command = [*parsed_by.prog.split(), *own]
    else:
        command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        parsed_by.error("no command after --")
    given = {field.name for field in dataclasses.fields(Job)} & vars(args).keys()
    values = {name: getattr(args, name) for name in given}
    values["sandbox"] = args.status_path.parent if args.sandbox else None
    code = fingerprint.of_stage(args.stage, tuple(args.module))
    return Job(**values | {"command": command, "fingerprint": code})


def run(described: Job, start: Callable[[], object]) -> int:
    """Run a job, by calling `start`, and return the exit code of the command.

    It is 0 if an outcome was recorded, also that of a failure, because a failed cell must not keep
    the CSV from being written; 75 (EX_TEMPFAIL) if no outcome was recorded because the stage should
    run again with larger limits; and 74 (EX_IOERR), with one line, if the outcome could not be
    written, for example to a full disk.
    """
    try:
        with temporary.own(described.stage):
            start()
    except Interrupted as stopped:
        print(stopped, file=sys.stderr)
        return 143
    except MoreNeeded as short:
        print(short, file=sys.stderr)
        return os.EX_TEMPFAIL
    except OSError as error:
        print(
            f"error: {described.stage} {described.cell}: its outcome cannot be recorded ({error}); "
            "the next run repeats it",
            file=sys.stderr,
        )
        return os.EX_IOERR
    return 0
