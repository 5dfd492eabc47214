"""What code a stage is made of, and whether a cell that failed is to be tried again.

A stage's fingerprint is a hash over its script and every module of this project that it
imports, found in the source, computed where and when the stage runs. Failed cells run again
when it changes; cells that are done do not: their rows carry the fingerprint that made them.
"""

from __future__ import annotations

import functools
import glob
import hashlib
import os
import shutil
import socket
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from scripts.lib.config import stages
from scripts.lib.core import python_source
from scripts.lib.driver import recorded
from scripts.lib.iree.backends import BACKENDS
from scripts.lib.supervision import outcome
from scripts.lib.supervision.outcome import Outcome

STALE = "stale"
"""What `retry` calls measurements that ended well under older code."""
ROOT = Path(__file__).parents[3]


def of_modules(modules: Iterable[str], root: Path = ROOT) -> str:
    """Twelve hex digits over the sources of `modules` and all of `scripts` they import."""
    digest = hashlib.sha256()
    ours = python_source.closure(modules, root, lambda name: name.split(".")[0] == "scripts")
    for path in sorted(ours):
        digest.update(str(path.relative_to(root)).encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def of_stage(stage: str, modules: tuple[str, ...]) -> str:
    """What decides how a failed cell would end now: the code, and for stages that want a
    device or a compiler of the machine's, what shows of those and on which machine. `stage` is its
    name in status files."""
    code = code_of_stage(modules)
    if not stages.wants_device(stage):
        return code
    return f"{code}-{_machine_signs()}@{_machine()}"


def due(
    status_path: str | Path,
    current: str,
    retry: Collection[str] = (),
    limits: Mapping[str, float] | None = None,
) -> str:
    """The value to hand to Snakemake as a param: a new one means run again.

    It is the code's part of the fingerprint `current` and a count, so that a cluster's head and
    its nodes, whose devices differ, agree on it. Nothing recorded, or a failure under other code:
    the code, and the count of a stage that began under it and has no outcome. Done, or failed under
    this very fingerprint: the value recorded as due. A forced run counts up, so that it happens
    once: a failure on this machine whose devices have changed, `retry` (statuses to force, "all",
    or "stale" for what ended well under other code), a `timeout` or `oom` when its limit in
    `limits` is no longer the one that it met, a failure that says nothing about the cell, and
    files that are cut short or gone.
    """
    code = _code_of(current)
    try:
        on_record = recorded.outcome_of(str(status_path))
    except ValueError:
        return f"{code}+{_moment(status_path)}"
    if on_record is None:
        begun = outcome.begun(status_path)
        return begun if _parts(begun)[0] == code else code
    found = on_record.outcome
    limits = limits or {}
    moved = found.status in limits and limits[found.status] != found.limit
    forced = (
        moved
        or found.status in retry
        or "all" in retry
        or (STALE in retry and is_stale(found, current))
        or found.is_passing
        or not on_record.whole
    )
    if not forced:
        if found.status == outcome.OK:
            return found.due or code
        if _code_of(found.fingerprint) != code:
            return code
        if not _signs_changed(found.fingerprint, current):
            return found.due or code
    return f"{code}+{_parts(found.due)[1] + 1}"


def is_stale(found: Outcome, current: str) -> bool:
    """Whether a stage ended well under other code than `current`, which may be a whole fingerprint."""
    return found.status == outcome.OK and _code_of(found.fingerprint) != _code_of(current)


def _moment(path: str | Path) -> int:
    """A count that nobody has asked with before: when a file that cannot be read was written, in
    nanoseconds. The count before it is lost with what it held."""
    return os.stat(path).st_mtime_ns


def _parts(due: str) -> tuple[str, int]:
    """The code and the count of what asked for a stage."""
    base, _, count = due.rpartition("+")
    return (base, int(count)) if base and count.isdecimal() else (due, 0)


def _code_of(fingerprint: str) -> str:
    return fingerprint.partition("-")[0]


def _signs_changed(recorded: str, current: str) -> bool:
    """Whether both are of one machine, whose devices differ; another machine's tell nothing."""
    was, is_now = (f.partition("-")[2].partition("@") for f in (recorded, current))
    return was[2] == is_now[2] and was[0] != is_now[0]


@functools.cache
def _machine_signs() -> str:
    """A hash over the files that show devices, and the compilers that are here.

    A cell that found no device is due again when this changes. Looking for files is cheap; asking
    every driver at each start is not.
    """
    patterns = {sign for backend in BACKENDS.values() for sign in backend.signs}
    found = sorted({path for pattern in patterns for path in glob.glob(pattern)})
    # inductor compiles with the machine's own compiler.
    found += [name for name in ("c++", "g++", "clang++") if shutil.which(name)]
    return hashlib.sha256("\n".join(found).encode()).hexdigest()[:6]


@functools.cache
def _machine() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:4]


@functools.cache
def code_of_stage(modules: tuple[str, ...]) -> str:
    """The code's part of a stage's fingerprint: one reading of the sources for all of its cells."""
    return of_modules(modules)
