"""The worker of a batch: a process that handles one task after another.

    @dataclass(frozen=True, kw_only=True)
    class References(batch_worker.TasksRequest):
        seed: int

    def make_references(request: References, folders: Folders) -> None:
        batch_worker.serve(request, handle, load)

`handle(payload, facts)` is like the body of a stage's script: if its task fails, it raises an exception or calls
exits.fail. Its output goes to the log of the task. The values that it stores in `facts` are the result of the task. The
process may end at any time; the journal contains all tasks that have ended.

With `serve`, it times the calls of programs that `load` loads (measure/timing/worker.py).
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import atomic, commands, exits
from scripts.core.atomic import Digest
from scripts.measure.timing import worker as timing_worker
from scripts.supervise import journal

MARK = b"\n# vmfbench: task "
"""Start of a line in a worker's output. The output after it belongs to the task on that line."""

Handle = Callable[[dict[str, Any], dict[str, Any]], None]
"""Handles a task, given its payload and the mapping for its facts."""
Load = Callable[[Any], timing_worker.Program]
"""Loads a program, given what the verification of its task has said about it (`program`)."""


@dataclass(frozen=True, kw_only=True)
class TasksRequest:
    """The request of a stage that works on batches. `problems`: JSONL, those of the batch. `before`: results/<stage>/<cell>/outcomes.jsonl of the
    stages before it.

    The host of a batch adds the others for its worker: the first three, or the last one. `tasks`: each with an `id` and a
    `payload`. `journal`: JSONL, when each one begins, and how it ends. `under`: fingerprint of their code. `serve`: time calls
    on request.
    """

    problems: Path = Path()
    before: Sequence[Path] = ()
    tasks: Sequence[Mapping[str, Any]] = ()
    journal: Path = Path("/dev/stdout")
    under: str = ""
    serve: bool = False


def serve(request: TasksRequest, handle: Handle, load: Load | None = None) -> None:
    """Handle the tasks in order, and write the begin and end of each to the journal; or time programs."""
    if request.serve and load:
        timing_worker.serve(load=load)
        return
    commands.report_working()
    for task in request.tasks:
        commands.report_next()
        _mark(task["id"])
        journal.append(request.journal, {"begin": task["id"]})
        start = time.monotonic()
        code, facts = _handled(handle, task["payload"])
        seconds = round(time.monotonic() - start, 4)
        _mark("")
        ended = {"end": task["id"], "code": code, "seconds": seconds, "result": facts}
        journal.append(request.journal, ended | {"under": request.under})


def _handled(handle: Handle, payload: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return the exit code with which a stage would have ended, and the facts."""
    facts: dict[str, Any] = {}
    code = exits.code_of(lambda: handle(payload, facts))
    try:
        json.dumps(facts, allow_nan=False)
    except (TypeError, ValueError):  # not JSON, so the journal cannot contain it
        traceback.print_exc()
        return 1, {}
    return code, facts


def _mark(task: str) -> None:
    """Send the following output to the log of a task, or to the worker's own log for ""."""
    sys.stdout.flush()
    sys.stderr.flush()
    # One write, which a pipe keeps whole (pipe(7), PIPE_BUF).
    os.write(1, MARK + task.encode() + b"\n")


def record_files(folder: Path, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the digests of files in a folder."""
    return {name: dataclasses.asdict(atomic.digest_of(folder / name)) for name in names}


def files_difference(folder: Path, files: Mapping[str, Mapping[str, Any]] | None) -> str:
    """Return how the size of a file differs from that of its digest; "" if none does. `files`: as of record_files."""
    for name, recorded in (files or {}).items():
        if what := atomic.size_difference(folder / name, Digest(**recorded)):
            return f"{folder / name} is damaged: {what}"
    return ""
