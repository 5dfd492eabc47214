"""Command-line options of the commands that run a job of a stage, and the end of such a command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from scripts.run import fingerprint
from scripts.supervise.job import Interrupted, Job, MoreNeeded


def parser(command: str, description: str | None) -> argparse.ArgumentParser:
    """Return the parser of such a command, a module of scripts."""
    made = argparse.ArgumentParser(
        prog=f"python -m scripts.stages.{command}", description=description
    )
    made.add_argument("--stage", required=True, help="export, compile, verify, …")
    made.add_argument("--cell", required=True, help="for example resnet/torchmlir-torch/vulkan")
    made.add_argument("--status", required=True, type=Path, help="status.json to write")
    made.add_argument("--log", required=True, type=Path, help="what the stage prints")
    made.add_argument("--timeout", required=True, type=float, help="seconds")
    made.add_argument("--memory", required=True, type=float, help="MiB of the process tree")
    made.add_argument("--skip", default="", help="do not run the stage, for this reason")
    made.add_argument(
        "--hang", default="", help="do not run the stage: it is known to hang, for this reason"
    )
    made.add_argument("--due", default="", help="the param `due` of the job, to record")
    made.add_argument("--module", nargs="*", default=[], help="modules that the fingerprint covers")
    made.add_argument(
        "--owner",
        type=int,
        help="stop when the process with this id ends (default: the parent)",
    )
    for what, limit in (("time", "--timeout"), ("memory", "--memory")):
        made.add_argument(
            f"--more-{what}",
            type=int,
            default=0,
            choices=(0, 1),
            help=f"1: if {limit} is reached, exit with 75 and no outcome, to run again with more",
        )
    made.add_argument(
        "--journal", type=Path, help="JSONL file to which a line of accounting is added"
    )
    made.add_argument(
        "--preload",
        type=int,
        default=0,
        choices=(0, 1),
        help="1: fork the stage from a process of the run that has imported its packages",
    )
    made.add_argument(
        "--upstream", nargs="*", default=[], type=Path, help="status.json that must be ok"
    )
    made.add_argument(
        "--artifact", nargs="*", default=[], type=Path, help="file that the stage makes"
    )
    made.add_argument("command", nargs=argparse.REMAINDER, help="-- and the stage's command")
    return made


OF_RUN = ("--due", "--journal", "--owner", "--more-time", "--more-memory", "--preload")
"""Options that a job has as a part of a run. Each takes a value."""


def by_hand(words: Sequence[str]) -> list[str]:
    """The command line of such a command without what belongs to a run."""
    rest = iter(words)
    return [word for word in rest if word not in OF_RUN or next(rest, None) is None]


def job(args: argparse.Namespace, parsed_by: argparse.ArgumentParser) -> Job:
    """Return the job of the options. Exits if there is no command after --."""
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        parsed_by.error("no command after --")
    return Job(
        stage=args.stage,
        cell=args.cell,
        status_path=args.status,
        log_path=args.log,
        command=command,
        timeout_s=args.timeout,
        memory_mb=args.memory,
        artifacts=args.artifact,
        upstream=args.upstream,
        skip=args.skip,
        fingerprint=fingerprint.of_stage(args.stage, tuple(args.module)),
        due=args.due,
        owner=args.owner,
        journal=args.journal,
        more_time=bool(args.more_time),
        more_memory=bool(args.more_memory),
        preload=bool(args.preload),
        hang=args.hang,
    )


def run(described: Job, start: Callable[[], object]) -> int:
    """Run a job, by calling `start`, and return the exit code of the command.

    It is 0 if an outcome was recorded, also that of a failure, because a failed cell must not keep
    the CSV from being written; 75 (EX_TEMPFAIL) if no outcome was recorded because the stage should
    run again with larger limits; and 74 (EX_IOERR), with one line, if the outcome could not be
    written, for example to a full disk.
    """
    try:
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
