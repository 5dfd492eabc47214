"""The work of a job that times a group: it starts the members, takes turns, and writes what came out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from scripts.core import atomic, requests
from scripts.core.machine import MachineLoad
from scripts.measure.timing import ratios
from scripts.measure.timing.group_timing import (
    GroupTiming,
    MemberTiming,
    PartTiming,
    latencies,
    part_of,
)
from scripts.measure.timing.turns import Group, Rule
from scripts.supervise import outcome, sandbox, supervise
from scripts.supervise.diagnose import Diagnosis
from scripts.supervise.job import Job
from scripts.supervise.members import TWIN, VERIFICATION, Member, Workers, memory_mb, parts
from scripts.supervise.outcome import Damage, Outcome
from scripts.supervise.supervise import Ran
from scripts.supervise.watch import CappedLog, Ended, Watch

TIMED = "timed.json"
"""A copy of the artifact, which Snakemake does not delete: a job that has nothing to measure again takes it from there."""
TIMING = "timing.json"
MEMBERS = "members"
"""Folder of what the members print, in that of the job."""


@dataclass(frozen=True)
class GroupRequest:
    """What a job times. `members`: the folder of the verification of each member, by the name of its cell. `anchor`: the
    member that is in every part. `bases`: the members with which all others are compared. `pairs`: further
    members that are compared. `forked`: the members whose processes may be forked."""

    members: Mapping[str, str]
    rule: Mapping[str, Any]
    anchor: str = ""
    bases: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    forked: tuple[str, ...] = ()


def outcomes(folder: Path) -> list[Outcome]:
    """The outcomes of the members of a timed group that left it; empty if it was not timed."""
    try:
        timing = msgspec.convert(atomic.read_json(folder / TIMING), GroupTiming)
        ended = outcome.read(folder / outcome.STATUS)
    except (OSError, ValueError, msgspec.ValidationError):
        return []
    return [
        member_outcome(cell, member, ended)
        for cell, member in timing.members.items()
        if member.status != outcome.OK
    ]


def kept_timing(path: Path) -> GroupTiming | None:
    """The timing in a file TIMED; None if there is none, or if it cannot be read."""
    try:
        return msgspec.convert(atomic.read_json(path), GroupTiming)
    except (OSError, ValueError, msgspec.ValidationError):
        return None


def member_outcome(cell: str, timed: MemberTiming, ended: Outcome) -> Outcome:
    """The outcome of a member; `ended`: that of the job that has timed its group."""
    log = Path(ended.log).parent / MEMBERS / log_name(cell)
    return replace(
        ended,
        cell=cell,
        status=timed.status,
        reason=timed.reason,
        detail=timed.detail,
        log=str(log),
    )


def log_name(cell: str) -> str:
    """The name of the file with what a member has printed."""
    return f"{cell.replace('/', '_')}.txt"


def work(request: GroupRequest) -> supervise.Work:
    """Return the work of a job that times a group. Its only artifact is the GroupTiming."""

    def run(job: Job, owner: int, scratch: Path, log: CappedLog) -> Ran:
        return _Work(request, job, owner, log).run(scratch)

    return run


class _Work:
    """One job."""

    def __init__(self, request: GroupRequest, job: Job, owner: int, log: CappedLog) -> None:
        self._request, self._job, self._owner, self._log = request, job, owner, log
        self._rule = Rule(**request.rule)
        self._folder = job.status_path.parent
        self._load = MachineLoad()

    def run(self, scratch: Path) -> Ran:
        artifact = scratch / self._job.artifacts[0].name
        verified = self._verified()
        if kept := self._kept(verified):
            self._log.note("# nothing has changed: the timing of the last run is kept")
            kept.write(artifact)
            return Ran(Ended(), supervise.digests(self._job, scratch))
        if damaged := self._damaged(verified):
            return Ran(Ended(), damage=damaged)
        watch = Watch(self._job, self._owner, scratch, self._log)
        if self._job.sandbox:
            self._log.note(sandbox.described(["the folders of the members"]))
        with watch.stop_requests():
            begun = time.monotonic()
            self._workers = Workers(self._job, self._owner, watch, self._job.timeout_s)
            try:
                timing = self._time(verified)
                fault = None
            except TimeoutError as error:
                fault = Diagnosis("timeout", "time-limit", str(error))
            finally:
                self._workers.close()
            seconds = time.monotonic() - begun
        ended = Ended(0, seconds, round(self._workers.peak_mb, 1), startup_s=0.0)
        if fault:
            return Ran(ended, fault=fault)
        timing.write(artifact)
        atomic.write_json(self._folder / TIMED, asdict(timing))
        return Ran(ended, supervise.digests(self._job, scratch))

    def _verified(self) -> dict[str, str]:
        """The members that are verified, with the digests of what verified them."""
        folders = {}
        for cell, folder in self._request.members.items():
            if outcome.read_or_damaged(Path(folder) / outcome.STATUS).status == outcome.OK:
                folders[cell] = atomic.digest_of(Path(folder) / VERIFICATION).crc32
        return folders

    def _damaged(self, verified: Iterable[str]) -> Damage | None:
        """The first damaged file of those that the members' processes read; None if there is none."""
        words: dict[str, None] = {}
        for cell in verified:
            folder = Path(self._request.members[cell])
            words[str(folder / VERIFICATION)] = None
            words |= dict.fromkeys(requests.read(folder).texts())
        return outcome.first_damage(list(words))

    def _kept(self, verified: Mapping[str, str]) -> GroupTiming | None:
        """The timing of an earlier run, if it has all of these members as they are now, and the job was not asked for
        again."""
        kept = kept_timing(self._folder / TIMED)
        if kept is None:
            return None
        same = verified.items() <= kept.verified.items() and kept.rule == self._rule.text()
        return kept if same and kept.due == self._job.due else None

    def _time(self, verified: Mapping[str, str]) -> GroupTiming:
        started = time.time()
        needs = {cell: memory_mb(Path(self._request.members[cell])) for cell in verified}
        anchor = self._request.anchor if self._request.anchor in needs else ""
        timed_parts: list[PartTiming] = []
        timed: dict[str, MemberTiming] = {}
        for number, names in enumerate(parts(needs, anchor, self._job.memory_mb)):
            part, members = self._time_part(
                names, min(names, key=needs.__getitem__), anchor, number
            )
            timed_parts.append(part)
            timed |= {name: member for name, member in members.items() if name not in timed}
        others = self._load.others()
        return GroupTiming(
            started=started,
            rule=self._rule.text(),
            anchor=anchor,
            members=timed,
            parts=tuple(timed_parts),
            verified=dict(verified),
            due=self._job.due,
            foreign=others.foreign,
            steal=others.steal,
            load=self._load.average,
        )

    def _time_part(
        self, names: Sequence[str], control: str, anchor: str, number: int
    ) -> tuple[PartTiming, dict[str, MemberTiming]]:
        members = {name: self._member(name) for name in names}
        twin = f"{control}{TWIN}"
        if len(names) > 1:  # else nothing is compared
            log = members[control].log.with_name("control.txt")
            members[twin] = replace(members[control], name=twin, log=log)
        bases = [name for name in self._request.bases if name in names]
        group = Group(
            list(members),
            lambda name: self._workers.start(members[name]),
            self._rule,
            lambda timed: ratios.is_decided(latencies(timed), bases, self._request.pairs),
            lambda text: self._log.note(f"# {text}"),
        )
        group.load = self._load  # the load of all parts
        group.run()
        return part_of(group.timed, control, twin, anchor, number)

    def _member(self, cell: str) -> Member:
        log = self._folder / MEMBERS / log_name(cell)
        return Member.verified(
            cell,
            Path(self._request.members[cell]),
            log,
            cell in self._request.forked,
            sandboxed=self._job.sandbox is not None,
        )
