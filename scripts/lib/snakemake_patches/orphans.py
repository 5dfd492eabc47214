"""Jobs of a killed run that a cluster still has: none may write beside its successor.

A run notes the id of each job that it submits; the next one looks which of them still are. Snakemake
9.27 notes them too, and loses each when the job begins: the Snakemake on the node writes its own
note of the job over it, without an id. So it would submit a job again while it runs.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

NOTES = Path("results/logs/submitted.txt")
POLL_SECONDS = 1.0
PATIENCE_SECONDS = 300.0


class StillRunning(RuntimeError):
    """Jobs of an earlier run that did not end, or of which nobody here can tell."""


def note(persistence: Any, name: str | None = None, notes: Path = NOTES) -> None:
    """Have every job that Snakemake registers as submitted noted from now on, in a new file.

    `persistence` is the workflow's: its `started(job, external_jobid)` is called for each job.
    `name` is what the executor calls all jobs of this run, if it does: by it a job is found whose
    submission was under way when Snakemake was killed.
    """
    notes.parent.mkdir(parents=True, exist_ok=True)
    file = notes.open("w", encoding="utf-8")
    known = set()
    register = persistence.started

    def write(jobid: str | None) -> None:
        if jobid is not None and jobid not in known:
            known.add(jobid)
            file.write(f"{jobid}\n")
            file.flush()

    def started(job: Any, external_jobid: str | None = None) -> None:
        write(external_jobid)
        register(job, external_jobid)

    write(name)
    persistence.started = started


def forget(notes: Path = NOTES) -> None:
    """After a run that has seen all of its jobs end."""
    notes.unlink(missing_ok=True)


def refuse(notes: Path = NOTES) -> None:
    """Raise StillRunning where jobs may be left, for a run that asks no queue about them."""
    if notes.is_file():
        raise StillRunning(
            "a run that did not end well has submitted jobs, and some may still write results: give "
            f"its line again, which looks after them, or see that none is left and remove {notes}"
        )


def stop(executor: str, settings: Any, notes: Path = NOTES) -> bool:
    """Cancel what an earlier run has left running and wait for its end; whether there was any.

    `executor` is the executor plugin's name, `settings` are its own. Raises StillRunning where
    jobs go on, or where it has no way to tell.
    """
    left = set(notes.read_text(encoding="utf-8").split()) if notes.is_file() else set()
    if not left:
        return False
    alive, cancel = _queue(executor, settings, left)
    running = sorted(alive(left))
    if not running:
        return False
    print(
        f"cancelling {len(running)} job(s) that an earlier run has left: {', '.join(running)}",
        file=sys.stderr,
        flush=True,
    )
    cancel(running)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while running := sorted(alive(running)):
        if time.monotonic() > deadline:
            raise StillRunning(f"cancelled, and still in the queue: {', '.join(running)}")
        time.sleep(POLL_SECONDS)
    return True


def start_over() -> None:
    """Give the command line of this Snakemake again, in this process.

    What is to be done has to be found anew where results are gone since it was: a cancelled job's
    Snakemake takes the outputs of its whole group away.
    """
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", "snakemake", *sys.argv[1:]])


def _queue(executor: str, settings: Any, left: set[str]) -> tuple[Callable, Callable]:
    """(which of some ids are alive, cancel ids) of an executor."""
    if executor.endswith("slurm"):
        return _alive_in_slurm, lambda ids: _run(["scancel", *ids])
    status, cancel = (getattr(settings, f"{kind}_cmd", None) for kind in ("status", "cancel"))
    if status and cancel:
        return (
            lambda ids: {i for i in ids if _run(f"{status} {shlex.quote(i)}").strip() == "running"},
            lambda ids: _run([*shlex.split(cancel), *ids]),
        )
    raise StillRunning(
        f"an earlier run may have left jobs ({', '.join(sorted(left))}), and the executor "
        f"{executor} has no commands for their status and to cancel them: see that they have "
        f"ended, then remove {NOTES}"
    )


def _alive_in_slurm(ids: Iterable[str]) -> set[str]:
    """Numbers of the jobs whose number, task of an array or name is among some."""
    listed = _run(["squeue", "--noheader", "--format=%A %i %j", f"--user={os.getuid()}"])
    rows = (line.split(maxsplit=2) for line in listed.splitlines())
    return {row[0] for row in rows if set(ids) & set(row)}


def _run(command: list[str] | str) -> str:
    """What a command prints; raises StillRunning with what it said where it fails."""
    ended = subprocess.run(
        command, shell=isinstance(command, str), capture_output=True, text=True, check=False
    )
    if ended.returncode:
        said = ended.stderr.strip() or ended.stdout.strip()
        raise StillRunning(f"{command}: exit code {ended.returncode}: {said}")
    return ended.stdout
