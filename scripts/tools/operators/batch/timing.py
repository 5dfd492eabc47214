"""The work of a job that times the problems of a batch on a device: the verified programs of a problem take turns.

Each row of the batch has one process, which loads the program of one problem after the other. As in the group of a model
(measure/timing/turns.py), all processes are started again for each generation. The timing of a problem stays in `timed.jsonl`, so
that a job times only what has changed.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from scripts.core import requests
from scripts.measure.timing import ratios
from scripts.measure.timing.group_timing import GroupTiming, part_of
from scripts.measure.timing.turns import Group, Rule
from scripts.measure.timing.worker import LOAD
from scripts.supervise import outcome, supervise
from scripts.supervise.diagnose import Diagnosis
from scripts.supervise.group import MEMBERS, TWIN, GroupRequest, log_name
from scripts.supervise.job import Job
from scripts.supervise.members import Member, Process, Workers
from scripts.supervise.outcome import Outcome, ProblemEnd, problem_of_cell
from scripts.supervise.supervise import Ran
from scripts.supervise.watch import CappedLog, Ended, Watch
from scripts.tools.operators.batch import batch_stage
from scripts.tools.operators.batch.batch_stage import Batch

TIMED = "timed.jsonl"
TOGETHER = 64
"""Problems that are timed by the same processes. A job that is stopped loses the timing of so many at most."""


@dataclass(frozen=True, kw_only=True)
class OperatorTimingRequest:
    """`problems`: JSONL, those of the batch."""

    group: GroupRequest
    problems: Path


def work(request: GroupRequest, batch: Batch) -> supervise.Work:
    """Return the work of a job that times a batch. The result of a problem that was timed has its `timing` (a
    GroupTiming), and by member `empty_ms`, the time of a call that computes nothing."""

    def run(job: Job, owner: int, scratch: Path, log: CappedLog) -> Ran:
        return _Work(request, batch, replace(job, owner=owner), log).run(scratch)

    return run


def member_outcome(line: ProblemEnd, member: str) -> Outcome:
    """The outcome of a member from the line of a problem."""
    ended = line.outcome
    timed = line.result.get("timing", {}).get("members", {}).get(member)
    if not timed and ended.status == outcome.OK:
        what = f"{member} was not timed; the next run times it"
        return replace(ended, status=outcome.DAMAGED, reason=outcome.DAMAGED_FILE, detail=what)
    if not timed:
        return ended
    log = ended.log and str(Path(ended.log).parent / MEMBERS / log_name(member))
    said = {key: timed[key] for key in ("status", "reason", "detail")}
    return replace(ended, **said, log=ended.log if timed["status"] == outcome.OK else log)


@dataclass(frozen=True)
class _Problem:
    """The results of a problem before it is timed. `lines`: of its verifications that are ok, by member. `above`: the
    outcome of the first one."""

    name: str
    lines: Mapping[str, ProblemEnd]
    above: Outcome

    @property
    def verified(self) -> dict[str, str]:
        """A checksum of each verification: a problem is timed again when one changes."""
        return {
            member: f"{zlib.crc32(json.dumps([line.result, line.outcome.fingerprint]).encode()):08x}"
            for member, line in self.lines.items()
        }


class _Work:
    def __init__(self, request: GroupRequest, batch: Batch, job: Job, log: CappedLog) -> None:
        self._request, self._batch, self._job, self._log = request, batch, job, log
        self._rule = Rule(**request.rule)
        self._folder = job.status_path.parent
        self._peak_mb = 0.0

    def run(self, scratch: Path) -> Ran:
        folders = {member: Path(folder) for member, folder in self._request.members.items()}
        ends = {m: outcome.read_or_damaged(f / outcome.STATUS) for m, f in folders.items()}
        files = {m: str(f / self._job.artifacts[0].name) for m, f in folders.items()}
        whole = [files[member] for member, ended in ends.items() if ended.status == outcome.OK]
        if damaged := outcome.first_damage(whole):
            return Ran(Ended(), damage=damaged)
        problems = self._problems(ends, files)
        lines = outcome.read_problem_ends_if_whole(self._folder / TIMED)
        left = [p for p in problems if p.lines and not self._stands(lines.get(p.name), p)]
        try:
            ended = self._time(left, lines, scratch) if left else Ended()
        except TimeoutError as error:
            return Ran(Ended(), fault=Diagnosis("timeout", "time-limit", str(error)))
        for problem in problems:
            if not problem.lines:
                skipped = batch_stage.skipped_by(self._job, problem.name, problem.above)
                lines[problem.name] = skipped
        in_order = [lines[problem.name] for problem in problems]
        batch_stage.write(self._job, scratch, self._log, in_order)
        return Ran(ended, supervise.digests(self._job, scratch))

    def _problems(self, ends: Mapping[str, Outcome], files: Mapping[str, str]) -> list[_Problem]:
        """`ends`, `files`: the outcome of the verification of each member, and the file with those of its problems."""
        read = {member: outcome.read_problem_ends_if_whole(path) for member, path in files.items()}
        problems = []
        for problem in self._batch.problems:
            said = {member: lines.get(problem.name) for member, lines in read.items()}
            ok = {m: line for m, line in said.items() if line and line.outcome.status == outcome.OK}
            member, first = next(iter(said.items()))
            problems.append(_Problem(problem.name, ok, first.outcome if first else ends[member]))
        return problems

    def _stands(self, line: ProblemEnd | None, problem: _Problem) -> bool:
        """Whether the timing of an earlier run is kept."""
        timing = line.result.get("timing") if line else None
        if not line or not timing or timing["rule"] != self._rule.text():
            return False
        is_same = problem.verified.items() <= timing["verified"].items()
        again = self._batch.again(line.outcome)
        return is_same and outcome.still_stands(line.outcome, self._job) and not again

    def _time(self, left: Sequence[_Problem], lines: dict[str, ProblemEnd], scratch: Path) -> Ended:
        """Time some problems, and add their lines to those of earlier runs."""
        watch = Watch(self._job, self._job.owner or os.getppid(), scratch, self._log)
        with watch.stop_requests():
            begun = time.monotonic()
            for at in range(0, len(left), TOGETHER):
                for line in self._time_together(left[at : at + TOGETHER], watch):
                    lines[line.problem] = line
                outcome.write_problem_ends(self._folder / TIMED, lines.values())
            seconds = time.monotonic() - begun
        return Ended(0, seconds, round(self._peak_mb, 1), startup_s=0.0)

    def _time_together(self, problems: Sequence[_Problem], watch: Watch) -> Iterator[ProblemEnd]:
        every = {member: line for problem in problems for member, line in problem.lines.items()}
        commands = {member: self._command(member, line) for member, line in every.items()}
        pools = _Pools(self._job, watch, commands)
        empty = self._turns(
            "an empty call", {m: line.result["empty"] for m, line in every.items()}, pools
        )

        def turns_of(problem: _Problem) -> _Turns:
            programs = {m: line.result["program"] for m, line in problem.lines.items()}
            return self._turns(problem.name, programs, pools)

        timed = [turns_of(problem) for problem in problems]
        self._generations([empty, *timed], pools)
        # Programs before it in the same process may have caused the end of a member.
        for number, turns in enumerate(timed):
            if turns.ended() and len(problems) > 1:
                timed[number] = turns_of(problems[number])
                self._generations([timed[number]], pools)
        self._peak_mb = max(self._peak_mb, pools.peak_mb)
        empty_ms = {
            member: ratios.undisturbed(
                [s for generation in empty_call.generations for s in generation.each_s]
            )
            * 1e3
            for member, empty_call in empty.group.timed.items()
            if empty_call.generations
        }
        for problem, measured in zip(problems, timed, strict=True):
            yield self._line(problem, measured, empty_ms)

    def _generations(self, timed: Sequence[_Turns], pools: _Pools) -> None:
        for _ in range(self._rule.generations):
            with pools.opened(len(timed)):
                for turns in timed:
                    ended, begun = turns.ended(), time.monotonic()
                    turns.group.generation(self._rule.budget_s / self._rule.generations)
                    turns.seconds += time.monotonic() - begun
                    for member in turns.ended() - ended:
                        pools.end(member)

    def _turns(self, name: str, programs: Mapping[str, Any], pools: _Pools) -> _Turns:
        def said(text: str) -> None:
            if not text.startswith("generation"):
                self._log.note(f"# {name}: {text}")

        def start(member: str) -> _Loaded:
            return pools.program(member, programs[member.removesuffix(TWIN)])

        anchor = self._request.anchor
        control = anchor if anchor in programs else next(iter(programs))
        members = [*programs, control + TWIN]
        return _Turns(Group(members, start, self._rule, lambda _: False, said), control)

    def _command(self, member: str, line: ProblemEnd) -> Member:
        request = requests.read(Path(self._request.members[member])).replaced(serve=True)
        if request.python == "python":
            request = replace(request, python=line.result["python"])
        log = self._folder / MEMBERS / log_name(member)
        request.write(log.with_suffix(""))
        command = request.command(log.with_suffix(""))
        return Member(member, tuple(command), log, member in self._request.forked)

    def _line(self, problem: _Problem, timed: _Turns, empty_ms: Mapping[str, float]) -> ProblemEnd:
        group = timed.group
        others = group.load.others()
        anchor = self._request.anchor if self._request.anchor in problem.lines else ""
        part, members = part_of(group.timed, timed.control, timed.control + TWIN, anchor, 0)
        timing = GroupTiming(
            started=timed.started,
            rule=self._rule.text(),
            anchor=anchor,
            members=members,
            parts=(part,),
            verified=problem.verified,
            due=self._job.due,
            foreign=others.foreign,
            steal=others.steal,
        )
        failed = (member for member in members.values() if member.status != outcome.OK)
        first = next(
            (Diagnosis(member.status, member.reason, member.detail) for member in failed), None
        )
        job = replace(self._job, cell=problem_of_cell(self._job, problem.name))
        result = {"timing": asdict(timing), "empty_ms": {m: empty_ms.get(m) for m in problem.lines}}
        return ProblemEnd(
            problem.name, supervise.record(job, first), round(timed.seconds, 3), result
        )


@dataclass
class _Turns:
    """The turns of one problem. `control`: the member that is there twice."""

    group: Group
    control: str
    started: float = field(default_factory=time.time)
    seconds: float = 0.0

    def ended(self) -> set[str]:
        """The members that have left the group."""
        return {name for name, member in self.group.timed.items() if member.ended}


class _Pools:
    """The processes of the members, of one generation after the other. `peak_mb`: their peak memory, MiB."""

    def __init__(self, job: Job, watch: Watch, members: Mapping[str, Member]) -> None:
        self._job, self._watch = job, watch
        self._members = dict(members)
        for name, member in members.items():
            log = member.log.with_suffix(".again.txt")
            self._members[name + TWIN] = replace(member, name=name + TWIN, log=log)
        self._running: dict[str, Process] = {}
        self.peak_mb = 0.0

    @contextlib.contextmanager
    def opened(self, problems: int) -> Iterator[None]:
        """A generation with so many problems."""
        seconds = self._job.timeout_s * len(self._members) * (problems + 1)
        self._workers = Workers(self._job, self._job.owner or os.getppid(), self._watch, seconds)
        try:
            yield
        finally:
            self.peak_mb = max(self.peak_mb, self._workers.peak_mb)
            self._workers.close()
            self._running.clear()

    def program(self, name: str, program: Any) -> _Loaded:
        """A program in the process of a member, which is started if there is none."""
        is_new = name not in self._running
        if is_new:
            self._running[name] = self._workers.start(self._members[name])
        return _Loaded(self._running[name], program, is_new, self._job.timeout_s)

    def end(self, name: str) -> None:
        """End the process of a member. The next program starts another one."""
        if running := self._running.pop(name, None):
            running.close()


@dataclass
class _Loaded:
    """A program of a member as the worker of a group. The process outlives it, and loads the next problem."""

    process: Process
    program: Any
    is_new: bool
    limit_s: float

    def wait_ready(self) -> None:
        if self.is_new:
            self.process.wait_ready()
        self.process.ask({LOAD: self.program}, self.limit_s)

    def first_call(self) -> dict[str, Any]:
        return self.process.first_call()

    def ask(self, request: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        return self.process.ask(request, limit_s)

    def rest(self) -> None:
        """Does nothing, as `close`."""

    close = rest
