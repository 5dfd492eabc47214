"""Fingerprints of stages, recorded outcomes, and whether a stage of a cell has to run again.

The fingerprint of a stage has the version of its code, which it declares (Stage.version), and for some stages signs of the
machine's devices. A failed cell runs again when the fingerprint changes. A cell that succeeded does not: its row has the
fingerprint of the code that produced it. A changed request or changed pins are params, which Snakemake compares itself.
Outcomes are read once each: Snakemake asks about the same cell several times.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.config import stages
from scripts.config.stages import Stage
from scripts.core import atomic
from scripts.run import signs
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome

STALE = "stale"
"""The value of `retry` for measurements that succeeded with older code."""


def of_stage(stage: Stage) -> str:
    """Everything that may change how a failed cell ends beside its request and its files: the version of the code, and for
    stages that need a device or a compiler of the machine, which of these the machine has, and which machine it is."""
    return signs.fingerprint(stage.version, stages.wants_device(stage.folder))


def due(
    status_path: str | Path,
    current: str,
    retry: Collection[str] = (),
    limits: Mapping[str, float] | None = None,
    parts: Iterable[Outcome] = (),
) -> str:
    """The value of the param `due`: Snakemake runs a job again when the value of a param changes.

    It consists of the version of the code (a part of the fingerprint `current`) and a counter. It
    does not depend on devices, so a cluster's login node and its nodes compute the same value.

    - No outcome, or a failure with other code: the present version. The counter is that of a stage
      which began with this code and has no outcome, else 0.
    - Success, or a failure with this very fingerprint: the recorded value, so nothing runs.
    - A forced run: the counter plus one, so that it happens once. A run is forced if the cell failed
      on this machine and its devices have changed; by `retry` (statuses, "all", or "stale" for
      successes with other code); if a `timeout` or `oom` occurred at another limit than the present
      one of `limits`; if the failure says nothing about the cell; if files are truncated or missing; and if they
      are of the future.

    `parts`: the outcomes of the problems of a batch. The batch runs again if one of them has to; the
    others are not handled again. Problems that were skipped depend on another stage.
    """
    code, limits = _code_of(current), limits or {}
    try:
        on_record = recorded_outcome(str(status_path))
    except ValueError:
        # The counter is lost with the contents of the file: when it was written was not used before.
        return f"{code}+{os.stat(status_path).st_mtime_ns}"
    if on_record is None:
        begun = outcome.begun(status_path)
        return begun if _parts(begun)[0] == code else code
    last = on_record.outcome
    ended = [last, *(part for part in parts if part.status != outcome.SKIPPED)]
    forced = (
        not on_record.whole
        or on_record.is_of_future()
        or any(
            is_wanted(stage, current, retry)
            or (stage.status in limits and limits[stage.status] != stage.limit)
            for stage in ended
        )
    )
    if not forced:
        failed = [stage.fingerprint for stage in ended if stage.status != outcome.OK]
        if any(_code_of(before) != code for before in failed):
            return code
        if not any(_signs_changed(before, current) for before in failed):
            return last.due or code
    return f"{code}+{_parts(last.due)[1] + 1}"


def is_wanted(ended: Outcome, current: str, retry: Collection[str]) -> bool:
    """Whether a stage has to run again by `retry`, or because its failure says nothing about the cell."""
    return (
        ended.status in retry
        or "all" in retry
        or (STALE in retry and is_stale(ended, current))
        or ended.is_passing
    )


def after(due: str, current: str) -> str:
    """The value of `due` that runs a job again which was run for the value `due`: `current`, with a
    counter if only that makes it another one."""
    before, count = _parts(due)
    return f"{current}+{count + 1}" if before == current else current


def is_stale(ended: Outcome, current: str) -> bool:
    """Whether a stage succeeded with other code than `current`, which may be a whole fingerprint."""
    return ended.status == outcome.OK and _code_of(ended.fingerprint) != _code_of(current)


def _parts(due: str) -> tuple[str, int]:
    """The version and the counter of a value of `due`."""
    base, _, count = due.rpartition("+")
    return (base, int(count)) if base and count.isdecimal() else (due, 0)


def _code_of(fingerprint: str) -> str:
    return fingerprint.partition("-")[0]


def _signs_changed(recorded: str, current: str) -> bool:
    """Whether two fingerprints are from the same machine and its devices have changed. Fingerprints from
    different machines cannot be compared."""
    was, is_now = (f.partition("-")[2].partition("@") for f in (recorded, current))
    return was[2] == is_now[2] and was[0] != is_now[0]


CLOCK_TOLERANCE_S = 60
"""By how much the clock of a file system may be ahead."""


@dataclass(frozen=True)
class Recorded:
    """The outcome in a status file. `whole`: its usage file can be read, and every artifact has its
    original size."""

    version: tuple[int, int, int]
    outcome: Outcome
    whole: bool

    def is_of_future(self) -> bool:
        """Whether the clock was set back since the stage ended. Until it gets there, a change of an input would not be noticed,
        and Snakemake refuses the outputs of later stages."""
        return self.version[1] > time.time_ns() + 10**9 * CLOCK_TOLERANCE_S


_READ: dict[str, Recorded] = {}


def recorded_outcome(status_path: str) -> Recorded | None:
    """The contents of a status file, or None if there is none. It is read again when it changes.

    Raises ValueError, naming the file, if it is not a status file.
    """
    try:
        stat = os.stat(status_path)
    except FileNotFoundError:
        return None
    version = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
    known = _READ.get(status_path)
    if known is None or known.version != version:
        ended = outcome.read(status_path)
        known = _READ[status_path] = Recorded(version, ended, _is_whole(status_path))
    return known


def _is_whole(status_path: str) -> bool:
    folder = os.path.dirname(status_path)
    try:
        usage = outcome.read_usage(status_path)
        return usage is not None and not any(
            atomic.size_difference(f"{folder}/{name}", artifact)
            for name, artifact in usage.artifacts.items()
        )
    except (OSError, ValueError):
        return False
