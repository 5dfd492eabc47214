"""Finds the fastest of many ways to compile a model: compiles them, verifies and times each, and reports all.

The candidates are compiled beside each other and measured one after another, each as a job of its own
with its own log and outcome, so that a crash or a hang of one is a line of the report. Candidates with
the same module are measured once. Measuring is by successive halving (Jamieson and Talwalkar 2016,
"Non-stochastic best arm identification and hyperparameter optimization"): all get few repetitions, and
in each further round the fastest ones get twice as many. A latency counts only if the results of its
process were verified.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import math
import multiprocessing
import os
import re
import shutil
import statistics
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import msgspec

from scripts.lib.core import atomic
from scripts.lib.supervision import outcome, supervise
from scripts.lib.supervision.caplog import CappedLog
from scripts.lib.supervision.diagnose import Diagnosis
from scripts.lib.supervision.job import Interrupted, Job
from scripts.lib.supervision.outcome import Outcome, Usage
from scripts.lib.supervision.room import try_lock
from scripts.lib.supervision.supervise import Ran
from scripts.lib.supervision.watch import Ended
from scripts.lib.timing.stopping import StoppingRule

FOLDER = "candidates"
"""Folder of the candidates, in that of the job."""
MODULE, REPORT, MEASUREMENT = "module.vmfb", "report.json", "measurement.json"
COMPILING = 0.5
"""Share of the budget that compilations may take."""
AT_MOST = 0.25
"""Share of the budget that one step of a candidate may take, unless the candidate is configured."""
GROWTH = 2
"""The repetitions of a round, divided by those of the round before."""
FIRST = StoppingRule(repeat=3, repetition_s=0.1, warmup_s=0.1, budget_s=1, rounds=1)
"""The stopping rule of the first round."""
POLL_SECONDS = 0.2

NOT_APPLICABLE, OUT_OF_BUDGET, NO_CANDIDATE = "not-applicable", "budget", "no-candidate"
"""Reasons of candidates that are not tried, and of a job of which no candidate has worked."""


class Candidate(msgspec.Struct, frozen=True):
    """One way to compile, as the rule's command line gives it.

    `frontend`, `opt_level`, `flags`: what it compiles and how. `options`: of the command that compiles.
    `program`: the file to compile; `export`: the status file of the stage that made it. `configured`:
    the target has it without tuning. `needs`, `avoid`: properties that the program must have all of,
    and none of. `hang`: why it is not run ("": it is run).
    """

    name: str
    frontend: str
    opt_level: str
    flags: tuple[str, ...]
    options: tuple[str, ...]
    program: str
    export: str
    configured: bool = False
    needs: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    hang: str = ""


class Search(msgspec.Struct, frozen=True):
    """What is searched: the candidates, in the order in which they are tried, and the seconds for all of
    them. `keep`: the share of the modules of a round that take part in the next one. `properties`: the
    regular expressions of which one is found in a line of a program with that property."""

    candidates: tuple[Candidate, ...]
    properties: dict[str, tuple[str, ...]]
    budget_s: float
    keep: float

    def to_text(self) -> str:
        """One line of JSON. Equal searches give equal text."""
        return json.dumps(msgspec.to_builtins(self), separators=(",", ":"))


def of_text(text: str) -> Search:
    """The search that `Search.to_text` has written. Raises ValueError."""
    return msgspec.json.decode(text, type=Search)


class Timed(msgspec.Struct, frozen=True):
    """One round of a candidate: the median over its repetitions."""

    median_ms: float
    repetitions: int


class Line(msgspec.Struct, frozen=True):
    """A candidate in the report. `step`: the one that has decided its outcome, `compile` or `measure`.
    `same_as`: the candidate with the same module ("": none before it). `compile`: the report of its
    compilation ({}: there is none)."""

    name: str
    frontend: str
    opt_level: str
    flags: tuple[str, ...]
    configured: bool
    status: str
    step: str
    reason: str
    detail: str
    log: str
    same_as: str
    rounds: tuple[Timed, ...]
    compile: dict[str, Any]


class Report(msgspec.Struct, frozen=True):
    """The report of a job. `compile_s`: seconds of all compilations divided by how many ran at a time;
    `measure_s`: of all measurements. `tuned` and `default`: the names of the fastest candidate, and of
    the fastest configured one (None: no such candidate has passed)."""

    budget_s: float
    compile_s: float
    measure_s: float
    tuned: str | None
    default: str | None
    candidates: tuple[Line, ...]

    def of(self, name: str | None) -> Line | None:
        """Return the candidate of that name; None for None."""
        return next((one for one in self.candidates if one.name == name), None)


def read(values: Mapping[str, Any]) -> Report:
    """Return the report in the values of its file. Raises msgspec.ValidationError, a ValueError."""
    return msgspec.convert(values, Report)


@dataclass
class Tried:
    """A candidate and what has become of it."""

    candidate: Candidate
    folder: Path
    step: str = "compile"
    ended: Outcome | None = None
    digest: str = ""
    same_as: str = ""
    rounds: list[Timed] = field(default_factory=list)

    @property
    def module(self) -> Path:
        return self.folder / MODULE

    @property
    def is_ok(self) -> bool:
        return self.ended is not None and self.ended.status == outcome.OK

    @property
    def rank(self) -> tuple[int, float]:
        """Sorts the fastest first. One that was kept for a further round is before those that were not."""
        return -len(self.rounds), self.rounds[-1].median_ms if self.rounds else math.inf

    def line(self) -> Line:
        ended, of = self.ended, self.candidate
        assert ended is not None
        report = self.folder / REPORT
        return Line(
            of.name, of.frontend, of.opt_level, of.flags, of.configured,
            ended.status, self.step, ended.reason, ended.detail, ended.log, self.same_as, tuple(self.rounds),
            atomic.read_json(report) if report.is_file() and report.stat().st_size else {},
        )  # fmt: skip


def work(search: Search, at_once: int) -> supervise.Work:
    """Return the work of a job that searches. `at_once`: how many candidates are compiled at a time.

    The command of the job measures its first artifact; the second one is the module of the fastest
    configured candidate, the third one the report.
    """

    def run(job: Job, owner: int, scratch: Path, log: CappedLog) -> Ran:
        tuner = _Tuner(dataclasses.replace(job, journal=None), owner, search, at_once, log)
        with _one_at_a_time(job, owner):
            fault = tuner.run()
        tuner.place(scratch)
        seconds = tuner.compile_s + tuner.measure_s
        ended = Ended(0, seconds, tuner.peak_mb, startup_s=0.0, alone_s=tuner.measure_s)
        return Ran(ended, supervise.digests(job, scratch), fault)

    return run


@contextlib.contextmanager
def _one_at_a_time(job: Job, owner: int) -> Iterator[None]:
    """Wait until no other search of this run is in progress: each uses all cores to compile.

    The kernel releases the lock when the process that holds it ends (flock(2)). Raises Interrupted if
    the process `owner` is gone. Where nothing else of the run can be running (`job.room` is None),
    there is nothing to wait for.
    """
    if job.room is None:
        yield
        return
    job.room.mkdir(parents=True, exist_ok=True)
    with (job.room / "tuning.lock").open("a") as file:
        while not try_lock(file, fcntl.LOCK_EX):
            _check(owner)
            time.sleep(POLL_SECONDS)
        yield


def _check(owner: int) -> None:
    """Raise Interrupted if the process that asked for the search is gone."""
    if os.getppid() != owner:
        raise Interrupted(f"process {owner} that asked for it is gone")


class _Tuner:
    """One search. `compile_s`, `measure_s`: the seconds that it has taken so far (see Report)."""

    def __init__(self, job: Job, owner: int, search: Search, at_once: int, log: CappedLog) -> None:
        self._job, self._owner, self._search, self._log = job, owner, search, log
        self._at_once = max(1, at_once)
        self._folder = job.status_path.parent
        shutil.rmtree(self._folder / FOLDER, ignore_errors=True)
        self._tried = [Tried(one, self._folder / FOLDER / one.name) for one in search.candidates]
        self.compile_s, self.measure_s, self.peak_mb = 0.0, 0.0, 0.0

    def run(self) -> Diagnosis | None:
        """Try the candidates. Returns why none of them has worked, or None."""
        self._leave_out()
        self._compile()
        self._find_same()
        self._measure()
        for one in self._tried:
            if one.ended is not None and one.ended.reason == outcome.DISK_FULL:
                return Diagnosis("error", outcome.DISK_FULL, one.ended.detail)
        return None if self._best() else _why_none(self._tried)

    def place(self, scratch: Path) -> None:
        """Write the artifacts, and remove all other modules and inputs."""
        tuned, default, report = (scratch / path.name for path in self._job.artifacts)
        best, configured = self._best(), self._best(configured=True)
        for made, into in ((best, tuned), (configured, default)):
            if made:
                shutil.copyfile(self._original(made).module, into)
        found = Report(
            budget_s=self._search.budget_s,
            compile_s=round(self.compile_s, 3),
            measure_s=round(self.measure_s, 3),
            tuned=best.candidate.name if best else None,
            default=configured.candidate.name if configured else None,
            candidates=tuple(one.line() for one in self._tried),
        )
        atomic.write_json(report, msgspec.to_builtins(found))
        options = dict(pairwise(self._job.command))
        shutil.rmtree(options.get("--raw-inputs", self._folder / "inputs"), ignore_errors=True)
        for one in self._tried:
            one.module.unlink(missing_ok=True)
            self._log.note(f"# {_said(one)}")

    def _best(self, configured: bool = False) -> Tried | None:
        """The fastest candidate that has passed, of all or of the configured ones."""
        passed = [one for one in self._tried if one.is_ok and one.rounds]
        if configured:
            passed = [one for one in passed if one.candidate.configured]
        return min(passed, key=lambda one: one.rank, default=None)

    def _original(self, one: Tried) -> Tried:
        """The candidate whose module was measured for this one."""
        return next((t for t in self._tried if t.candidate.name == one.same_as), one)

    def _leave_out(self) -> None:
        """Skip the candidates that do not apply to their programs, or are known to hang."""
        texts: dict[str, bytes] = {}
        for one in self._tried:
            of = one.candidate
            if of.program not in texts:
                path = Path(of.program)
                texts[of.program] = path.read_bytes() if path.is_file() else b""
            if of.hang:
                one.ended = self._skipped(one, "known-hang", of.hang)
            elif texts[of.program] and (why := self._why_not(of, texts[of.program])):
                one.ended = self._skipped(one, NOT_APPLICABLE, why)

    def _why_not(self, of: Candidate, program: bytes) -> str:
        """Why a candidate does not apply to a program; "" if it does."""
        has = {
            name
            for name in (*of.needs, *of.avoid)
            if any(re.search(one.encode(), program) for one in self._search.properties[name])
        }
        if lacking := [name for name in of.needs if name not in has]:
            return f"the program has no {lacking[0]}"
        if avoided := [name for name in of.avoid if name in has]:
            return f"the program has {avoided[0]}"
        return ""

    def _compile(self) -> None:
        """Compile the candidates, several at a time, as long as their share of the budget lasts. What is
        configured is compiled in any case."""
        todo = [one for one in self._tried if one.ended is None]
        jobs = {str(one.folder / outcome.STATUS): one for one in todo}

        def wanted() -> Iterator[Job]:
            for one in todo:
                if one.candidate.configured or self._left(COMPILING) > 0:
                    yield self._compile_job(one)

        for done in _beside(wanted(), self._at_once, self._owner):
            one = jobs[str(done.status_path)]
            one.ended = outcome.read_or_damaged(done.status_path)
            self.compile_s += self._account(done) / self._at_once
        for one in todo:
            if one.ended is None:
                one.ended = self._skipped(one, OUT_OF_BUDGET, self._budget_said(COMPILING))

    def _find_same(self) -> None:
        """Hash the modules. The later one of two that are the same is not measured."""
        first: dict[str, Tried] = {}
        for one in self._tried:
            if one.is_ok:
                one.digest = hashlib.sha256(one.module.read_bytes()).hexdigest()
                same = first.setdefault(one.digest, one)
                one.same_as = "" if same is one else same.candidate.name

    def _measure(self) -> None:
        """Measure the modules in rounds; the fastest ones of each round take part in the next one."""
        left = [one for one in self._tried if one.is_ok and not one.same_as]
        rule, number = FIRST, 1
        without_device: Outcome | None = None
        while left:
            for one in left:
                is_first = number == 1
                if without_device:
                    one.ended = without_device
                    continue
                if not (is_first and one.candidate.configured) and self._left() <= 0:
                    if is_first:
                        one.ended = self._skipped(one, OUT_OF_BUDGET, self._budget_said())
                    continue
                self._measure_one(one, number, rule)
                if one.ended and one.ended.status == outcome.UNAVAILABLE:
                    without_device = one.ended
            passed = [one for one in left if one.is_ok and len(one.rounds) == number]
            if len(left) <= 2 or self._left() <= 0:
                break
            passed.sort(key=lambda one: one.rank)
            left = passed[: max(2, math.ceil(len(passed) * self._search.keep))]
            number += 1
            rule = dataclasses.replace(rule, repeat=rule.repeat * GROWTH, budget_s=rule.budget_s * GROWTH)  # fmt: skip
        self._share()

    def _measure_one(self, one: Tried, number: int, rule: StoppingRule) -> None:
        """Verify and time a candidate. One that fails in a later round has failed."""
        one.step = "measure"
        job = self._measure_job(one, number, rule)
        one.ended = supervise.run(job)
        self.measure_s += self._account(job)
        if one.is_ok:
            values = atomic.read_json(job.artifacts[0])["latency"]["values_ms"]
            one.rounds.append(Timed(statistics.median(values), len(values)))

    def _share(self) -> None:
        """Give the outcome and the rounds of a module to all candidates that have it."""
        for one in self._tried:
            if one.same_as:
                original = self._original(one)
                one.step, one.ended, one.rounds = original.step, original.ended, original.rounds

    def _compile_job(self, one: Tried) -> Job:
        python = self._job.command[0]
        made = [one.module, one.folder / REPORT]
        command = [
            *(python, "-m", "scripts.compile_iree", "--program", one.candidate.program),
            *one.candidate.options,
            *("--out-vmfb", str(made[0]), "--out-report", str(made[1])),
        ]
        # Started by itself: forked from a process that belongs to this one, it would need one of its own.
        return self._step(one, one.folder, command, made, preload=False, owner=os.getpid())

    def _measure_job(self, one: Tried, number: int, rule: StoppingRule) -> Job:
        folder = one.folder / f"round-{number}"
        tuned = self._job.artifacts[0]
        measurement = folder / MEASUREMENT
        moved = {
            str(tuned): str(one.module),
            str(tuned.with_name(MEASUREMENT)): str(measurement),
        }
        command = [moved.get(word, word) for word in self._job.command]
        given = {key: value for key, value in dataclasses.asdict(rule).items() if value is not None}
        command += ["--rule", json.dumps(given, separators=(",", ":"))]
        return self._step(one, folder, command, [measurement])

    def _step(
        self, one: Tried, folder: Path, command: Sequence[str], made: Sequence[Path], **changes: Any
    ) -> Job:
        """The job of a step of a candidate, with its files in `folder`."""
        limit_s = self._job.timeout_s
        if not one.candidate.configured:
            limit_s = min(limit_s, AT_MOST * self._search.budget_s)
        values: dict[str, Any] = {
            "command": command,
            "status_path": folder / outcome.STATUS,
            "log_path": folder / self._job.log_path.name,
            "artifacts": made,
            "upstream": [Path(one.candidate.export)],
            "timeout_s": limit_s,
            "more_time": False,
            "more_memory": False,
            "owner": self._owner,
        }
        return dataclasses.replace(self._job, **(values | changes))

    def _account(self, job: Job) -> float:
        """The seconds that a step has taken."""
        used = outcome.read_usage(job.status_path) or Usage(0.0, 0.0)
        self.peak_mb = max(self.peak_mb, used.max_rss_mb)
        return used.seconds

    def _left(self, share: float = 1.0) -> float:
        """The seconds that are left of the budget, or of a share of it."""
        return share * self._search.budget_s - self.compile_s - self.measure_s

    def _budget_said(self, share: float = 1.0) -> str:
        of = "" if share == 1.0 else f"{share:.0%} of "
        return f"{of}the budget of {self._search.budget_s:g} s was used up before".replace(
            "%", " %"
        )

    def _skipped(self, one: Tried, reason: str, detail: str) -> Outcome:
        return Outcome(outcome.SKIPPED, self._job.stage, self._job.cell, reason, detail, log=str(self._job.log_path))  # fmt: skip


def _beside(jobs: Iterator[Job], at_once: int, owner: int) -> Iterator[Job]:
    """Run jobs, `at_once` of them at a time, and yield each when it has ended.

    Each is run by a process forked from this one, which it notices to end. Raises Interrupted if the
    process `owner` is gone.
    """
    context = multiprocessing.get_context("fork")
    running: dict[Any, tuple[Any, Job]] = {}

    def start() -> None:
        while len(running) < at_once and (job := next(jobs, None)):
            child = context.Process(target=_run_one, args=(job,), daemon=True)
            child.start()
            running[child.sentinel] = child, job

    start()
    while running:
        for sentinel in wait(list(running), timeout=POLL_SECONDS):
            child, job = running.pop(sentinel)
            child.join()
            yield job
        _check(owner)
        start()


def _run_one(job: Job) -> None:
    """Run a job, in a process of its own. One that is told to stop leaves no outcome."""
    try:
        supervise.run(job)
    except Interrupted:
        os._exit(143)


def _why_none(tried: Collection[Tried]) -> Diagnosis:
    """Why no candidate has passed: the first configured one, or else the first one that was tried."""
    ended = [one for one in tried if one.ended and one.ended.status != outcome.SKIPPED]
    first = next((one for one in ended if one.candidate.configured), next(iter(ended), None))
    if first is None or first.ended is None:
        said = next((one.ended.detail for one in tried if one.ended), "there is none")
        return Diagnosis("error", NO_CANDIDATE, f"no candidate could be tried: {said}")
    name, of = first.candidate.name, first.ended
    if of.status == outcome.UNAVAILABLE:
        return Diagnosis(of.status, of.reason, of.detail)
    return Diagnosis(of.status, of.reason, f"no candidate has passed; {name}: {of.detail}")


def _said(one: Tried) -> str:
    """A candidate and its outcome, for the log."""
    ended = one.ended
    assert ended is not None
    why = "" if ended.status == outcome.OK else f" ({ended.reason}): {ended.detail}"
    times = ", ".join(f"{found.median_ms:.4g} ms" for found in one.rounds)
    same = f", the module of {one.same_as}" if one.same_as else ""
    return f"{one.candidate.name}: {ended.status}{why}{same}{f': {times}' if times else ''}"
