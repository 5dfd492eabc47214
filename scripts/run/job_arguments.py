"""The commands that run a job of a stage: their words in a rule, their options, and how they end.

Every job starts such a command, so that what only a rule or a person needs is imported there: that halves the start.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import shlex
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from scripts.core import checkout, exits, temporary
from scripts.core.requests import Folders, StageRequest
from scripts.run import signs
from scripts.supervise import outcome, supervise
from scripts.supervise.job import Interrupted, Job, MoreNeeded


def prefix() -> str:
    """The words before `python -m scripts.…` in the command of a rule, in a folder that is not the checkout."""
    words = "".join(f"{shlex.quote(word)} " for word in checkout.prefix())
    return words.replace("{", "{{").replace("}", "}}")


def in_rule(
    command: str,
    stage: str,
    *,
    owner: int,
    more_attempts: bool,
    retry: Collection[str] | None = None,
    run: str = "",
    files: str = "",
    lists: str = "",
    after: str = "",
    makes: str = "",
    beside: str = "",
    python: str = "{params.python}",
    more: str = "",
    values: Mapping[str, Any] | None = None,
) -> str:
    """The command of a rule: the supervisor runs a stage by the param `request` and the files of the rule.

    `command`: the module that runs the job. With `exec`, its parent is Snakemake itself (the process `owner`), so
    it notices when Snakemake is killed. `more_attempts`: whether further attempts with larger limits may follow, as they do on a
    cluster. `retry`: of a batch of operator problems, the statuses to retry. They are no param: `due` requests the run, and they
    select problems of it.
    `run`: the entry point, if it is not that of the stage. By names of inputs, `files` and `lists` are fields of the request, which
    have one path and several, and `after` are the status files that must be ok. `makes`: the names of the outputs, without the
    status; `beside`: a file that is no output. `values`: fields that ask for no re-run. `python`: the interpreter. `more`: further
    options.
    """
    from scripts.config.stages import STAGES, wants_device

    declared = STAGES[stage]
    words = [
        f"exec {prefix()}{shlex.quote(sys.executable)} -m {command}",
        "--stage {params.stage} --cell {params.cell:q} --status {output.status:q} --log {log:q}",
        "--timeout {resources.timeout_s} --memory {resources.memory_mb}",
        "--preload {resources.preload} --sandbox {resources.sandbox}",
        f"--due {{params.due:q}} --journal results/logs/journal.jsonl --owner {owner}",
    ]
    if more_attempts:
        words += ["--more-time {resources.more_time} --more-memory {resources.more_memory}"]
    if retry is not None:
        statuses = ",".join(sorted(retry))
        words += [f"--pins {{params.pins}} --retry '{statuses}'"]
    words += [
        f"--version {declared.version} --signs {int(wants_device(declared.folder))} --run {run or declared.modules[0]} --python {python}",
        "--request {params.request:q}",
        *(f"--file {name} {{input.{name}:q}}" for name in files.split()),
        *(f"--files {name} {{input.{name}:q}}" for name in lists.split()),
        *(["--upstream", *(f"{{input.{name}:q}}" for name in after.split())] if after else []),
        *("--artifact", *(f"{{output.{name}:q}}" for name in makes.split())),
        *([beside] if beside else []),
        *(f"--field {name} {value}" for name, value in (values or {}).items()),
        *(["{params.skip}"] if declared.skipped else []),
        *([more] if more else []),
    ]
    return " ".join(words)


def parser(command: str, description: str | None) -> argparse.ArgumentParser:
    """Return the parser of such a command, a module of scripts. The values are named as the fields of Job."""
    command_line = argparse.ArgumentParser(prog=f"python -m {command}", description=description)

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
    option("--version", "that of the stage's code", required=True, type=int)
    option("--signs", "1: its outcome depends on the machine's devices", type=int, default=0)
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
    option("--run", "module of the stage's entry point", required=True)
    option("--python", "interpreter of the stage", required=True)
    option("--request", "fields of the request, as JSON", required=True, type=json.loads)
    several = {"action": "append", "default": []}
    option("--file", "field of the request that is a path", nargs=2, **several)
    option("--files", "field that is a list of paths", nargs="+", **several)
    option("--field", "further field of the request, as JSON", nargs=2, **several)
    return command_line


def job(args: argparse.Namespace) -> Job:
    """Return the job of the options."""
    fields = args.request | dict(args.file) | {name: paths for name, *paths in args.files}
    fields |= {name: json.loads(value) for name, value in args.field}
    request = StageRequest(args.run, args.python, fields)
    of_job = {field.name for field in dataclasses.fields(Job)} & vars(args).keys()
    values = {name: getattr(args, name) for name in of_job} | {
        "request": request,
        "command": request.command(args.status_path.parent),
        "sandbox": args.status_path.parent if args.sandbox else None,
        "fingerprint": signs.fingerprint(args.version, bool(args.signs)),
    }
    return Job(**values)


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


def run_by_hand(stage: str, folders: Folders, artifact: str, work: supervise.Work) -> None:
    """Run a job that a supervisor does itself, for a person who runs its entry point: without a limit of time. The status and the log go
    to the folder of the results. Exits with the reason of a failure."""
    from scripts.run import resources

    folder = folders.results
    job = Job(
        stage=stage,
        cell=folder.name,
        status_path=folder / outcome.STATUS,
        log_path=folder / "log.txt",
        command=(),
        timeout_s=math.inf,
        memory_mb=resources.memory_limit_mb({}),
        artifacts=[folder / artifact],
    )
    ended = supervise.run(job, work)
    if ended.status != outcome.OK:
        exits.fail(ended.detail, reason=ended.reason)
