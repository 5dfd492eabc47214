"""The outcome of one stage of one cell (`status.json`), and its time, memory and artifacts (`usage.json`).

These are two files because Snakemake compares small files by checksum: an unchanged outcome must be identical byte for byte, and
seconds and memory differ in every run. Beside them are `memory.json`, the resident memory over time, and of the stage of a batch
`outcomes.jsonl`, a line per problem.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from scripts.core import atomic, requests
from scripts.core.atomic import Digest
from scripts.supervise.job import Job

OK = "ok"
SKIPPED = "skipped"
UNAVAILABLE = "unavailable"
DAMAGED = "damaged"
FAILED = ("unsupported", "error", "crashed", "timeout", "oom", DAMAGED)
STATUSES = (OK, *FAILED, UNAVAILABLE, SKIPPED)

STATUS = "status.json"
USAGE = "usage.json"
_BEGUN = "begun.txt"

DAMAGED_FILE = "damaged-file"
"""Reason of a stage one of whose files is missing, has another size than when it was written, or cannot be read."""
DISK_FULL = "disk-full"
EXHAUSTED = "exhausted"
"""Reason of a stage that could not open a file or start a process or thread, because there were too many."""
DAMAGED_ENVIRONMENT = "damaged-environment"
"""Reason of a stage that failed in an environment in which a file is missing or cut."""
KILLED_BY = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")
"""Signals that stages do not send to themselves: they come from outside."""
PASSING = frozenset({DAMAGED_FILE, DAMAGED_ENVIRONMENT, DISK_FULL, EXHAUSTED, *KILLED_BY})
"""Reasons that say nothing about a cell: the next run repeats it."""


Values = TypeVar("Values")


@dataclass(frozen=True)
class Outcome:
    """How one stage of one cell ended.

    `reason` is a class to group by, `detail` the line that a compiler engineer would quote; both are empty when
    `status` is ok. `blocked_by` is "<stage> <cell>" of the first failure upstream. `command` runs as it stands in the
    folder that holds results/. `fingerprint` is of the code that ran, `due` the param that asked for it (see
    fingerprint.due), `limit` the seconds or MiB that a timeout or oom met.
    """

    status: str
    stage: str
    cell: str
    reason: str = ""
    detail: str = ""
    blocked_by: str = ""
    log: str = ""
    command: str = ""
    fingerprint: str = ""
    due: str = ""
    limit: float | None = None

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status {self.status!r} is not one of {', '.join(STATUSES)}")

    @property
    def is_passing(self) -> bool:
        """Whether it failed for a reason that says nothing about the cell. Stages that were skipped
        because of such a failure run again together with the failed stage."""
        return self.status in FAILED and self.reason in PASSING

    @property
    def is_remediable(self) -> bool:
        """Whether it is a failure of the program itself, which another way to compile may make good. A full disk or a
        kill from outside says nothing about the program, and the next run repeats it."""
        return self.status in FAILED and not self.is_passing


@dataclass(frozen=True)
class Usage:
    """What a stage used and wrote: wall seconds, the peak resident set of its process tree in MiB, and
    the digests of its artifacts by file name (none if it failed)."""

    seconds: float
    max_rss_mb: float
    artifacts: Mapping[str, Digest] = dataclasses.field(default_factory=dict)


def usage_path(status_path: str | Path) -> Path:
    """The usage file of the stage to which a status file, or another file, belongs."""
    return Path(status_path).with_name(USAGE)


def begin(status_path: str | Path, due: str) -> None:
    """Record the `due` of a stage (see fingerprint.due) for as long as it has no outcome: a job that needs larger limits leaves
    none, and its next attempt must have the same param."""
    path = Path(status_path).with_name(_BEGUN)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(due, encoding="utf-8")


def begun(status_path: str | Path) -> str:
    """The `due` of a stage that began and has no outcome; "" if there is no such stage."""
    try:
        return Path(status_path).with_name(_BEGUN).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def write(status_path: str | Path, outcome: Outcome, usage: Usage) -> None:
    """Write the usage, then the outcome: a status file means that the stage is finished."""
    atomic.write_json(usage_path(status_path), dataclasses.asdict(usage))
    atomic.write_json(status_path, dataclasses.asdict(outcome))
    Path(status_path).with_name(_BEGUN).unlink(missing_ok=True)


def read(status_path: str | Path) -> Outcome:
    """Read a status file. Raises ValueError naming the file if it is not one."""
    return _decoded(Outcome, Path(status_path), "status")


def read_usage(status_path: str | Path) -> Usage | None:
    """Read the usage file of a status file; None if the stage never ran. Raises ValueError naming the
    file if it is not one."""
    try:
        return _decoded(Usage, usage_path(status_path), "usage")
    except FileNotFoundError:
        return None


def _decoded(kind: type[Values], path: Path, name: str) -> Values:
    values = atomic.read_json(path)
    try:
        values.pop("crc32", None)  # of an older version
        if artifacts := values.get("artifacts"):
            values["artifacts"] = {
                file: requests.decode(Digest, digest) for file, digest in artifacts.items()
            }
        return requests.decode(kind, values)
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{path}: not a {name} file ({error}); the next run makes it again"
        ) from error


def read_or_damaged(status_path: Path) -> Outcome:
    """Read a status file. If it cannot be read, return an outcome `damaged` whose stage and cell come
    from its path, results/<stage>/<cell>/status.json."""
    try:
        return read(status_path)
    except (OSError, ValueError) as error:
        parts = status_path.parent.parts
        below = parts[parts.index("results") + 1 :] if "results" in parts else parts[-2:]
        log = str(status_path.with_name("log.txt"))
        return Outcome(DAMAGED, below[0], "/".join(below[1:]), DAMAGED_FILE, str(error), log=log)


def condemn(status_path: str | Path, what: str) -> None:
    """Record that a file of a stage is damaged, so that the next run repeats the stage. Nothing is written if that is
    already recorded, or if the status file itself cannot be read: then the stage runs again anyway (fingerprint.due)."""
    ended = read_or_damaged(Path(status_path))
    if ended.status != DAMAGED:
        now = dataclasses.replace(ended, status=DAMAGED, reason=DAMAGED_FILE, detail=what)
        atomic.write_json(status_path, dataclasses.asdict(now))


@dataclass(frozen=True)
class Damage:
    """A damaged file: the status file of the stage that made it, and the difference."""

    status_path: Path
    what: str


def first_damage(command: Sequence[str], own: Collection[Path] = ()) -> Damage | None:
    """The first damaged file among those that words name, or values in `--option=value`; None if there is none. The size of a file is
    in the usage file of its folder. `own`: the artifacts that the command will write.
    """
    for word in command:
        path = Path(word.partition("=")[2] if word.startswith("--") else word)
        if path in own or not os.path.isfile(path.parent / USAGE):
            continue
        if what := difference(path):
            return Damage(path.with_name(STATUS), what)
    return None


def difference(path: Path) -> str:
    """How the size of a file differs from what its stage wrote; "" if it does not, or if none is known."""
    try:
        usage = read_usage(path)
    except (OSError, ValueError) as error:
        return str(error)
    recorded = usage.artifacts.get(path.name) if usage else None
    if recorded is None or not (how := atomic.size_difference(path, recorded)):
        return ""
    return f"{path} is damaged: {how}; the next run makes it again"


MEMORY = "memory.json"
MOST_SAMPLES = 240
"""A series has at most twice as many samples. Pairs of samples are then merged."""


@dataclass
class MemorySeries:
    """`seconds`: when each sample was taken, since the start of the stage and without waiting for other stages. `mb`: the
    resident set of its process tree in MiB, the largest of the merged samples. `marks`: what the stage did from a moment
    on, as (seconds, name)."""

    seconds: list[float] = field(default_factory=list)
    mb: list[int] = field(default_factory=list)
    marks: list[tuple[float, str]] = field(default_factory=list)

    def add(self, seconds: float, mb: float) -> None:
        """Add a sample. If there are too many, merge pairs of them, so that peaks stay."""
        self.seconds.append(round(seconds, 2))
        self.mb.append(round(mb))
        if len(self.mb) >= 2 * MOST_SAMPLES:
            kept = [max(at, at + 1, key=self.mb.__getitem__) for at in range(0, len(self.mb), 2)]
            self.seconds = [self.seconds[at] for at in kept]
            self.mb = [self.mb[at] for at in kept]

    def mark(self, seconds: float, name: str) -> None:
        """Record that something begins."""
        self.marks.append((round(seconds, 2), name))


def write_memory(status_path: Path, series: MemorySeries | None) -> None:
    """Write the series of a stage next to its status file. None, or one without samples, removes an older file."""
    path = status_path.with_name(MEMORY)
    if series is None or not series.mb:
        path.unlink(missing_ok=True)
    else:
        atomic.write_text(path, json.dumps(asdict(series)) + "\n")


def read_memory(status_path: Path) -> MemorySeries | None:
    """Read the series of a stage; None if there is none, or if the file is damaged."""
    import msgspec  # bundles that measure have this module, and their machines no msgspec

    try:
        series = msgspec.convert(atomic.read_json(status_path.with_name(MEMORY)), MemorySeries)
    except (OSError, ValueError, msgspec.ValidationError):
        return None
    return series if len(series.seconds) == len(series.mb) else None


@dataclass(frozen=True)
class ProblemEnd:
    """The end of a stage for one problem. `seconds`: time that it took; None if it did not end
    by itself. `result`: JSON values that depend on the stage."""

    problem: str
    outcome: Outcome
    seconds: float | None = None
    result: Mapping[str, Any] = field(default_factory=dict)


def write_problem_ends(path: Path, lines: Iterable[ProblemEnd]) -> None:
    """Write the lines, in order."""
    text = "".join(json.dumps(dataclasses.asdict(line), allow_nan=False) + "\n" for line in lines)
    atomic.write_text(path, text)


def read_problem_ends(path: str | Path) -> dict[str, ProblemEnd]:
    """Read the lines, by the name of the problem. Raises OSError, or ValueError naming the file."""
    import msgspec  # bundles that measure have this module, and their machines no msgspec

    lines = {}
    for number, text in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        try:
            line = msgspec.json.decode(text, type=ProblemEnd)
        except (msgspec.MsgspecError, ValueError) as error:
            raise ValueError(f"{path}:{number}: not the outcome of a problem ({error})") from error
        lines[line.problem] = line
    return lines


def read_problem_ends_if_whole(path: str | Path) -> dict[str, ProblemEnd]:
    """Read the lines; none if the file does not exist or is not whole. The status file of the stage
    says whether it is whole."""
    try:
        return read_problem_ends(path)
    except (OSError, ValueError):
        return {}


def problem_of_cell(job: Job, name: str) -> str:
    """Return the name of a problem in a cell of a stage, for its outcome."""
    return f"{job.cell}: {name}"


def still_stands(ended: Outcome, job: Job) -> bool:
    """Return whether the outcome of an unchanged problem in an earlier run is still valid: it is ok,
    or a failure under the same code and limits which says something about the problem."""
    if ended.status == OK:
        return True
    limits = {"timeout": job.timeout_s, "oom": job.memory_mb}
    has_moved = ended.limit not in (None, limits.get(ended.status))
    return ended.fingerprint == job.fingerprint and not has_moved and not ended.is_passing
