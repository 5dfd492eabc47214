"""Find the fastest way to compile a model for a target: a job that compiles, verifies and times many candidates, and reports all.

The request of the job verifies the first artifact; it is made for each candidate, with the candidate's
module. The candidates are compiled with the same Python.

The candidates are compiled beside each other and verified one after another, each as a job of its own
with its own log and outcome, so that a crash or a hang of one is a line of the report. Candidates with
the same module are verified and timed once. Those that are verified are timed in turns (Race).
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import multiprocessing
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import msgspec

from scripts.core import atomic
from scripts.core.requests import StageRequest
from scripts.measure.timing import ratios
from scripts.measure.timing.ratios import Difference
from scripts.measure.timing.turns import Group, MemberEnded, Rule, Worker
from scripts.run import job_arguments, resources
from scripts.supervise import members, outcome, supervise
from scripts.supervise.diagnose import Diagnosis
from scripts.supervise.job import Interrupted, Job
from scripts.supervise.members import VERIFICATION, Member, Workers
from scripts.supervise.outcome import Outcome, Usage
from scripts.supervise.supervise import Ran
from scripts.supervise.watch import CappedLog, Ended, Watch
from scripts.tools.variants.candidates import (
    NOT_APPLICABLE,
    OUT_OF_BUDGET,
    Candidate,
    Line,
    Report,
    Search,
    Timing,
    TriedWay,
    step,
)

FOLDER = "candidates"
"""Folder of the candidates, in that of the job."""
COMPILING = 0.5
"""Share of the budget that compilations may take."""
VERIFYING = 0.75
"""Share of the budget that compilations and verifications may take."""
AT_MOST = 0.25
"""Share of the budget that one step of a candidate may take, unless the candidate is configured."""
MODULE, REPORT, VERIFY = "module.vmfb", "report.json", "verify"
"""Files of a candidate, and the folder of its verification, in its own."""
NO_CANDIDATE = "no-candidate"
"""The reason of a job of which no candidate has worked."""
POLL_SECONDS = 0.2


def work(search: Search, at_once: int) -> supervise.Work:
    """Return the work of a job that searches. `at_once`: how many candidates are compiled at a time.

    The request of the job verifies its first artifact; the second one is the module of the fastest
    configured candidate, the third one the report.
    """

    def run(job: Job, owner: int, scratch: Path, log: CappedLog) -> Ran:
        tuner = _Tuner(dataclasses.replace(job, journal=None), owner, search, at_once, log)
        fault = tuner.run()
        tuner.place(scratch)
        seconds = tuner.compile_s + tuner.measure_s
        ended = Ended(0, seconds, tuner.peak_mb, startup_s=0.0)
        return Ran(ended, supervise.digests(job, scratch), fault)

    return run


class _Tuner:
    """One search. `compile_s`, `measure_s`: the seconds that it has taken so far (see Report)."""

    def __init__(self, job: Job, owner: int, search: Search, at_once: int, log: CappedLog) -> None:
        self._job, self._owner, self._search, self._log = job, owner, search, log
        assert job.request is not None
        self._verifies = job.request
        self._at_once = max(1, at_once)
        self._folder = job.status_path.parent
        shutil.rmtree(self._folder / FOLDER, ignore_errors=True)
        self._tried = {
            way.name: Tried(way, folder=self._folder / FOLDER / way.name)
            for way in search.candidates
        }
        self._race = Race(search.keep, said=lambda text: log.note(f"# {text}"))
        self.compile_s, self.measure_s, self.peak_mb = 0.0, 0.0, 0.0

    def run(self) -> Diagnosis | None:
        """Try the candidates. Returns why none of them has worked, or None."""
        candidates = self._tried.values()
        self._leave_out()
        self._compile()
        self._find_same()
        self._verify()
        self._time()
        self._share()
        for tried in candidates:
            if tried.ended is not None and tried.ended.reason == outcome.DISK_FULL:
                return Diagnosis("error", outcome.DISK_FULL, tried.ended.detail)
        return None if self._best() else why_none(candidates)

    def place(self, scratch: Path) -> None:
        """Write the artifacts, and remove all other modules and inputs."""
        tuned, default, report = (scratch / path.name for path in self._job.artifacts)
        best, configured = self._best(), self._best(configured=True)
        for module, into in ((best, tuned), (configured, default)):
            if module:
                shutil.copyfile(self._original(module).module, into)
        content = Report(
            budget_s=self._search.budget_s,
            compile_s=round(self.compile_s, 3),
            measure_s=round(self.measure_s, 3),
            tuned=best.name if best else None,
            default=configured.name if configured else None,
            candidates=tuple(tried.line() for tried in self._tried.values()),
        )
        atomic.write_json(report, msgspec.to_builtins(content))
        for tried in self._tried.values():
            shutil.rmtree(tried.folder / VERIFY / "inputs", ignore_errors=True)
            tried.module.unlink(missing_ok=True)
            self._log.note(f"# {tried.said()}")

    def _best(self, configured: bool = False) -> Tried | None:
        """The fastest candidate that has passed, of all or of the configured ones."""
        passed = [
            tried
            for tried in self._tried.values()
            if self._original(tried).name in self._race.ms
            and (tried.way.configured or not configured)
        ]

        def rank(tried: Tried) -> tuple[int, float]:
            return self._race.rank(self._original(tried).name, configured)

        return min(passed, key=rank, default=None)

    def _original(self, tried: Tried) -> Tried:
        """The candidate whose module was timed for this one."""
        return self._tried[tried.same_as or tried.name]

    def _leave_out(self) -> None:
        """Skip the candidates that do not apply to their programs, or are known to hang."""
        programs = {tried.way.program for tried in self._tried.values()}
        texts = {path: Path(path).read_bytes() for path in programs if Path(path).is_file()}
        for tried in self._tried.values():
            text = texts.get(tried.way.program)
            if tried.way.hang:
                tried.ended = self._skipped("known-hang", tried.way.hang)
            elif text and (why := why_not(self._search, tried.way, text)):
                tried.ended = self._skipped(NOT_APPLICABLE, why)

    def _compile(self) -> None:
        """Compile candidates, several at a time, as long as their share of the budget lasts. What is
        configured is compiled in any case."""
        todo = [tried for tried in self._tried.values() if tried.ended is None]
        by_status = {tried.folder / outcome.STATUS: tried for tried in todo}

        def wanted() -> Iterator[Job]:
            for tried in todo:
                if tried.way.configured or self._left(COMPILING) > 0:
                    yield self._compile_job(tried)

        for done in beside(wanted(), self._at_once, self._owner):
            by_status[done.status_path].ended = outcome.read_or_damaged(done.status_path)
            self.compile_s += self._account(done) / self._at_once
        for tried in todo:
            if tried.ended is None:
                tried.ended = self._late(COMPILING)

    def _find_same(self) -> None:
        """Hash the modules. The later one of two that are the same is not verified."""
        first: dict[str, Tried] = {}
        for tried in self._tried.values():
            if tried.is_ok:
                digest = hashlib.sha256(tried.module.read_bytes()).hexdigest()
                same = first.setdefault(digest, tried)
                tried.same_as = "" if same is tried else same.name

    def _verify(self) -> None:
        """Verify modules, as long as their share of the budget lasts. What is configured is verified in any case."""
        without_device: Outcome | None = None
        for tried in self._tried.values():
            if not tried.is_new:
                continue
            if without_device:
                tried.ended = without_device
            elif not tried.way.configured and self._left(VERIFYING) <= 0:
                tried.ended = self._late(VERIFYING)
            else:
                tried.step = "verify"
                job = self._verify_job(tried)
                tried.ended = supervise.run(job)
                self.measure_s += self._account(job)
                if tried.ended.status == outcome.UNAVAILABLE:
                    without_device = tried.ended

    def _time(self) -> None:
        """Time the modules that are verified in turns, as long as the budget lasts."""
        todo = [tried.name for tried in self._tried.values() if tried.is_new]
        if not todo:
            return
        configured = [tried.name for tried in self._tried.values() if tried.way.configured]
        late = self._late()
        watch = Watch(self._job, self._owner, self._folder, self._log)
        with watch.stop_requests():
            begun, left_s = time.monotonic(), max(0.0, self._left())
            workers = Workers(self._job, self._owner, watch, left_s + self._job.timeout_s)
            try:
                self._race.run(
                    todo,
                    configured,
                    lambda name: workers.start(self._member(name)),
                    self._parts,
                    lambda: begun + left_s - time.monotonic(),
                )
            except TimeoutError as error:
                late = dataclasses.replace(late, status="timeout", reason="time-limit", detail=str(error))  # fmt: skip
            seconds = time.monotonic() - begun
        self.measure_s += seconds
        self.peak_mb = max(self.peak_mb, workers.peak_mb)
        for tried in self._tried.values():
            tried.step = "time" if tried.name in todo else tried.step
            if ended := self._race.ended.get(tried.name):
                tried.ended = dataclasses.replace(late, status=ended.status, reason=ended.reason, detail=ended.detail, log=str(tried.timing_log))  # fmt: skip
            elif tried.name in todo and tried.name not in self._race.ms:
                tried.ended = late

    def _member(self, name: str) -> Member:
        tried = self._tried[name]
        return Member.verified(
            name,
            tried.folder / VERIFY,
            tried.timing_log,
            self._job.preload,
            sandboxed=self._job.sandbox is not None,
        )

    def _parts(self, names: Sequence[str], anchor: str) -> list[list[str]]:
        needs = {name: members.memory_mb(self._tried[name].folder / VERIFY) for name in names}
        return members.parts(needs, anchor, self._job.memory_mb, AT_ONCE)

    def _share(self) -> None:
        """Give the outcome and the timing of a module to all candidates that have it."""
        base = self._best(configured=True)
        name = self._original(base).name if base else None
        for timed in self._race.ms:
            self._tried[timed].timing = self._race.timing(timed, name)
        for tried in self._tried.values():
            original = self._original(tried)
            tried.step, tried.ended, tried.timing = original.step, original.ended, original.timing

    def _compile_job(self, tried: Tried) -> Job:
        artifacts = [tried.module, tried.folder / REPORT]
        fields = {**tried.way.target, "program": tried.way.program}
        request = StageRequest("scripts.stages.compile_iree", self._verifies.python, fields)
        # Started by itself: forked from a process that belongs to this one, it would need one of its own.
        return self._step(tried, tried.folder, request, artifacts, preload=False, owner=os.getpid())

    def _verify_job(self, tried: Tried) -> Job:
        folder = tried.folder / VERIFY
        request = self._verifies.replaced(vmfb=[tried.module])
        return self._step(tried, folder, request, [folder / VERIFICATION])

    def _step(
        self,
        tried: Tried,
        folder: Path,
        request: StageRequest,
        artifacts: Sequence[Path],
        **changes: Any,
    ) -> Job:
        """The job of a step of a candidate, with its files in `folder`."""
        limit_s = self._job.timeout_s
        if not tried.way.configured:
            limit_s = min(limit_s, AT_MOST * self._search.budget_s)
        values = {"timeout_s": limit_s, "more_time": False, "more_memory": False, "owner": self._owner}  # fmt: skip
        return step(self._job, tried.way, folder, request, artifacts, **(values | changes))

    def _account(self, job: Job) -> float:
        """The seconds that a step has taken."""
        used = outcome.read_usage(job.status_path) or Usage(0.0, 0.0)
        self.peak_mb = max(self.peak_mb, used.max_rss_mb)
        return used.seconds

    def _left(self, share: float = 1.0) -> float:
        return share * self._search.budget_s - self.compile_s - self.measure_s

    def _late(self, share: float = 1.0) -> Outcome:
        share_of = "" if share == 1.0 else f"{100 * share:.0f} % of "
        detail = f"{share_of}the budget of {self._search.budget_s:g} s was used up before"
        return self._skipped(OUT_OF_BUDGET, detail)

    def _skipped(self, reason: str, detail: str) -> Outcome:
        return Outcome(outcome.SKIPPED, self._job.stage, self._job.cell, reason, detail, log=str(self._job.log_path))  # fmt: skip


@dataclass
class Tried(TriedWay[Candidate]):
    """A candidate with its files in `folder`. `step`: the last one that was tried. `same_as`: the candidate before it
    with the same module."""

    folder: Path = Path()
    step: str = "compile"
    same_as: str = ""
    timing: Timing | None = None

    @property
    def module(self) -> Path:
        return self.folder / MODULE

    @property
    def timing_log(self) -> Path:
        """What its process has printed while it was timed."""
        return self.folder / "time.txt"

    @property
    def is_new(self) -> bool:
        """Whether it is ok, and no candidate before it has the same module."""
        return self.is_ok and not self.same_as

    def line(self) -> Line:
        """What the report says about it."""
        ended, way = self.ended, self.way
        assert ended is not None
        report = self.folder / REPORT
        return Line(
            way.name, way.frontend, way.opt_level, way.flags, way.configured,
            ended.status, self.step, ended.reason, ended.detail, ended.log, self.same_as, self.timing,
            atomic.read_json(report) if report.is_file() and report.stat().st_size else {},
        )  # fmt: skip

    def said(self) -> str:
        time = f": {self.timing.ms:.4g} ms" if self.timing else ""
        same = f", the module of {self.same_as}" if self.same_as else ""
        return f"{super().said()}{same}{time}"


def why_not(search: Search, candidate: Candidate, program: bytes) -> str:
    """Why a candidate does not apply to a program; "" if it does."""

    def has(name: str) -> bool:
        return any(re.search(text.encode(), program) for text in search.properties[name])

    for name in candidate.needs:
        if not has(name):
            return f"the program has no {name}"
    for name in candidate.avoid:
        if has(name):
            return f"the program has {name}"
    return ""


def why_none(tried: Collection[Tried]) -> Diagnosis:
    """Why no candidate has passed: the first configured one, or else the first one that was tried."""
    ends = [(candidate, candidate.ended) for candidate in tried if candidate.ended]
    failed = [pair for pair in ends if pair[1].status != outcome.SKIPPED]
    if not failed:
        detail = ends[0][1].detail if ends else "there is none"
        return Diagnosis("error", NO_CANDIDATE, f"no candidate could be tried: {detail}")
    first, ended = min(failed, key=lambda pair: not pair[0].way.configured)
    if ended.status == outcome.UNAVAILABLE:
        return Diagnosis(ended.status, ended.reason, ended.detail)
    return Diagnosis(
        ended.status, ended.reason, f"no candidate has passed; {first.name}: {ended.detail}"
    )


def beside(jobs: Iterator[Job], at_once: int, owner: int) -> Iterator[Job]:
    """Run jobs, `at_once` of them at a time, and yield each when it has ended.

    Each is run by a process forked from this one, which it notices to end. Raises Interrupted if the
    process `owner`, which requested the search, is gone.
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
        if os.getppid() != owner:
            raise Interrupted(f"process {owner} that asked for it is gone")
        start()


def _run_one(job: Job) -> None:
    """Run a job, in a separate process. One that is told to stop leaves no outcome."""
    try:
        supervise.run(job)
    except Interrupted:
        os._exit(143)


def main() -> int:
    parser = job_arguments.parser("scripts.tools.variants.tune_iree", __doc__)
    parser.add_argument("--search", required=True, help="JSON: candidates, budget, conditions")
    parser.add_argument("--cores", default=1, type=int, help="for compilations beside each other")
    args = parser.parse_args()
    job = job_arguments.job(args)
    search = msgspec.json.decode(args.search, type=Search)
    searching = work(search, at_once=resources.slots(args.cores))
    return job_arguments.run(job, lambda: supervise.run(job, searching))


HALVED = (1, 3, 7)
"""The generations after which only the fastest ones stay."""
GENERATIONS = 12
"""The generations of a race at most."""
AT_ONCE = 10
"""The modules that are timed in turns with each other at most. If there are more, they are timed in several parts, and
compared through the anchor, which is in all of them."""
RULE = dataclasses.replace(Rule(), budget_s=Rule().budget_s / Rule().generations, generations=1)
"""One generation."""

Generation = tuple[int, int]
"""The number of a generation, and of its part."""


class Race:
    """A race of modules, given by their names, in turns: the time goes to those that are near the fastest.

    After the generations HALVED, the share `keep` of them stays: successive halving (Jamieson and Talwalkar 2016, "Non-stochastic best
    arm identification and hyperparameter optimization"). A module also leaves as soon as the interval of its ratio to the
    fastest one says that it is slower: racing (Maron and Moore 1994, "Hoeffding races"). What the target is configured to
    compile leaves in the second way alone, and only if another one of these is faster: the fastest of them is the base of all
    speed-ups.

    `anchor`: the one that is in all parts. `ms`: the latency of each in its generations, of those that did not fail.
    `ended`: why the others failed.
    """

    def __init__(self, keep: float, said: Callable[[str], None]) -> None:
        self._keep, self._said = keep, said
        self._number = 0
        # The last generation after which each was near the fastest one.
        self._near: dict[str, int] = {}
        self.anchor = ""
        self.ms: dict[str, dict[Generation, float]] = {}
        self.ended: dict[str, MemberEnded] = {}

    def run(
        self,
        names: Sequence[str],
        configured: Collection[str],
        start: Callable[[str], Worker],
        parts: Callable[[Sequence[str], str], list[list[str]]],
        left_s: Callable[[], float],
    ) -> None:
        """Time modules until it is decided which is the fastest, or until no seconds are left (`left_s`).

        `start` starts the process of one; `parts` says which of them are timed at once, each time with the anchor. Every
        configured one is in one generation at least, and with it all of its part.
        """
        left = list(names)
        number = 0
        while left:
            if self.anchor not in left:  # all others were compared with it
                self.ms.clear()
                number, self.anchor = 0, next((n for n in left if n in configured), left[0])
            number, begun, before = number + 1, time.monotonic(), len(left)
            self._number += 1
            for at, part in enumerate(parts(left, self.anchor)):
                if number > 1 or left_s() > 0 or at == 0 or any(n in configured for n in part[1:]):
                    self._generation(at, part, start)
            member_s = (time.monotonic() - begun) / before
            left = self._staying([n for n in left if n in self.ms], configured, number)
            if self.anchor in left and (
                number == GENERATIONS or left_s() < member_s * len(left) or self._is_decided(left)
            ):
                return

    def rank(self, name: str, configured: bool = False) -> tuple[int, float]:
        """Sorts the fastest first, after those that were near the fastest one for longer; `configured`: that stayed longer."""
        last = max(self.ms[name])[0] if configured else self._near.get(name, 0)
        return -last, self._log_ratio(name)

    def timing(self, name: str, base: str | None) -> Timing:
        """The result of the comparison of a module with another one."""
        own, _ = self._pair(name, self.anchor)
        latency = ratios.of_logs([math.log(ms) for ms in own])
        timing = Timing(len(own), math.exp(ratios.log_mean(own)), *_ends(latency))
        if base is None:
            return timing
        between = self._between(base, name)
        log = between.value if between else self._log_ratio(base) - self._log_ratio(name)
        low, high = _ends(between)
        return msgspec.structs.replace(
            timing, speedup=math.exp(log), speedup_low=low, speedup_high=high
        )

    def _generation(self, at: int, part: Sequence[str], start: Callable[[str], Worker]) -> None:
        group = Group(part, start, RULE, enough=lambda _: True, said=self._said)
        group.run()
        for name, member in group.timed.items():
            if member.ended:
                self.ended[name] = member.ended
                self.ms.pop(name, None)
            else:
                ms = ratios.undisturbed(member.generations[0].each_s) * 1e3
                self.ms.setdefault(name, {})[self._number, at] = ms

    def _staying(self, names: Sequence[str], configured: Collection[str], number: int) -> list[str]:
        """Those that are in the next generation."""
        if self.anchor not in names:
            return list(names)
        ordered = sorted(names, key=self._log_ratio)
        most = max(2, math.ceil(len(names) * self._keep)) if number in HALVED else len(names)
        near = [name for name in ordered[:most] if not self._is_slower(name, ordered[0])]
        self._near |= dict.fromkeys(near, self._number)
        own = [name for name in ordered if name in configured]
        still = [name for name in own if not self._is_slower(name, own[0])]
        return [name for name in names if name in {self.anchor, *near, *still}]

    def _is_slower(self, name: str, base: str) -> bool:
        between = self._between(base, name)
        return between is not None and between.interval().verdict == ratios.SLOWER

    def _is_decided(self, names: Sequence[str]) -> bool:
        """Whether the fastest one is known, and how many times faster it is than each other one."""
        alike = [at for at in self.ms[self.anchor] if all(at in self.ms[name] for name in names)]
        values = {name: [self.ms[name][at] for at in alike] for name in names}
        fastest = min(names, key=self._log_ratio)
        return len(names) == 1 or ratios.is_decided(values, [fastest])

    def _log_ratio(self, name: str) -> float:
        anchor, own = self._pair(self.anchor, name)
        return ratios.log_mean(own) - ratios.log_mean(anchor)

    def _between(self, base: str, row: str) -> Difference | None:
        return ratios.paired(*self._pair(base, row))

    def _pair(self, base: str, row: str) -> tuple[list[float], list[float]]:
        """The latencies of two modules in the generations of both that count."""
        both = [at for at in self.ms[base] if at in self.ms[row]]
        together = {
            name: [ms[at] for at in both]
            for name, ms in self.ms.items()
            if all(at in ms for at in both)
        }
        kept = [both[number] for number in ratios.counted(together)]
        return [self.ms[base][at] for at in kept], [self.ms[row][at] for at in kept]


def _ends(difference: Difference | None) -> tuple[float, float] | tuple[None, None]:
    if difference is None:
        return None, None
    interval = difference.interval()
    return interval.low, interval.high


if __name__ == "__main__":
    sys.exit(main())
