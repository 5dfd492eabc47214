"""Finds the fastest of many ways to compile a model: compiles them, verifies and times each, and reports all.

The candidates are compiled beside each other and verified one after another, each as a job of its own
with its own log and outcome, so that a crash or a hang of one is a line of the report. Candidates with
the same module are verified and timed once. Those that are verified are timed in turns (race.py).
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from scripts.core import atomic
from scripts.core.requests import StageRequest
from scripts.features.variants.candidates import Search, step
from scripts.features.variants.search.race import AT_ONCE, Race
from scripts.features.variants.search.report import NOT_APPLICABLE, OUT_OF_BUDGET, Report, Specs
from scripts.features.variants.search.tried import (
    REPORT,
    VERIFY,
    Tried,
    beside,
    why_none,
    why_not,
)
from scripts.supervise import members, outcome, supervise
from scripts.supervise.diagnose import Diagnosis
from scripts.supervise.job import Job
from scripts.supervise.members import VERIFICATION, Member, Workers
from scripts.supervise.outcome import Outcome, Usage
from scripts.supervise.supervise import Ran
from scripts.supervise.watch import CappedLog, Ended, Watch
from scripts.timing import ratios

FOLDER = "candidates"
"""Folder of the candidates, in that of the job."""
COMPILING = 0.5
"""Share of the budget that compilations may take."""
VERIFYING = 0.75
"""Share of the budget that compilations and verifications may take."""
AT_MOST = 0.25
"""Share of the budget that one step of a candidate may take, unless the candidate is configured."""
WITH_SPECS = 2
"""How many modules a tuning spec is searched for: the fastest ones."""
CALLED = ("weights", "inputs", "signature", "device", "threads")
"""Fields of the request that verifies which the search for a spec has too."""
LEAST_S = 10.0
"""Seconds without which a search for a spec is not begun: a dozen trials of one dispatch."""
LAST_S = 90.0
"""Seconds that a search for a spec may take beyond its own: the last trial is ended, and the module is profiled."""


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
        self._specs: list[Specs] = []
        self._race = Race(search.keep, said=lambda text: log.note(f"# {text}"))
        self.compile_s, self.measure_s, self.peak_mb = 0.0, 0.0, 0.0

    def run(self) -> Diagnosis | None:
        """Try the candidates. Returns why none of them has worked, or None."""
        candidates = self._tried.values()
        before_specs = 1.0 - self._search.specs  # the share of the budget
        self._leave_out()
        self._compile(candidates, COMPILING * before_specs)
        self._find_same()
        self._verify(candidates, VERIFYING * before_specs)
        self._time(candidates, before_specs)
        if self._search.specs:
            self._add_specs()
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
            specs=tuple(self._specs),
        )
        atomic.write_json(report, msgspec.to_builtins(content))
        for tried in self._tried.values():
            shutil.rmtree(tried.folder / VERIFY / "inputs", ignore_errors=True)
            tried.module.unlink(missing_ok=True)
            self._log.note(f"# {tried.said()}")

    def _best(self, configured: bool = False) -> Tried | None:
        """The fastest candidate that has passed, of all or of the configured ones."""
        rank = self._race.rank_of_configured if configured else self._race.rank
        passed = [
            tried
            for tried in self._tried.values()
            if self._original(tried).name in self._race.ms
            and (tried.way.configured or not configured)
        ]
        return min(passed, key=lambda tried: rank(self._original(tried).name), default=None)

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

    def _compile(self, candidates: Collection[Tried], share: float) -> None:
        """Compile candidates, several at a time, as long as their share of the budget lasts. What is
        configured is compiled in any case."""
        todo = [tried for tried in candidates if tried.ended is None]
        by_status = {tried.folder / outcome.STATUS: tried for tried in todo}

        def wanted() -> Iterator[Job]:
            for tried in todo:
                if tried.way.configured or self._left(share) > 0:
                    yield self._compile_job(tried)

        for done in beside(wanted(), self._at_once, self._owner):
            by_status[done.status_path].ended = outcome.read_or_damaged(done.status_path)
            self.compile_s += self._account(done) / self._at_once
        for tried in todo:
            if tried.ended is None:
                tried.ended = self._late(share)

    def _find_same(self) -> None:
        """Hash the modules. The later one of two that are the same is not verified."""
        first: dict[str, Tried] = {}
        for tried in self._tried.values():
            # Found before: what has failed since then is still the first one with its module.
            if tried.digest:
                first.setdefault(tried.digest, tried)
            elif tried.is_ok:
                tried.digest = hashlib.sha256(tried.module.read_bytes()).hexdigest()
                same = first.setdefault(tried.digest, tried)
                tried.same_as = "" if same is tried else same.name

    def _verify(self, candidates: Collection[Tried], share: float) -> None:
        """Verify modules, as long as this share of the budget lasts. What is configured is verified in any case."""
        without_device: Outcome | None = None
        for tried in candidates:
            if not tried.is_new:
                continue
            if without_device:
                tried.ended = without_device
            elif not tried.way.configured and self._left(share) <= 0:
                tried.ended = self._late(share)
            else:
                tried.step = "verify"
                job = self._verify_job(tried)
                tried.ended = supervise.run(job)
                self.measure_s += self._account(job)
                if tried.ended.status == outcome.UNAVAILABLE:
                    without_device = tried.ended

    def _time(self, candidates: Collection[Tried], share: float) -> None:
        """Time the modules that are verified in turns, as long as this share of the budget lasts."""
        todo = [tried.name for tried in candidates if tried.is_new]
        if not todo:
            return
        configured = [tried.name for tried in self._tried.values() if tried.way.configured]
        late = self._late(share)
        watch = Watch(self._job, self._owner, self._folder, self._log)
        with watch.stop_requests():
            begun, left_s = time.monotonic(), max(0.0, self._left(share))
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
                tried.ended = dataclasses.replace(late, status=ended.status, reason=ended.reason, detail=ended.detail, log=str(_timing_log(tried)))  # fmt: skip
            elif tried.name in todo and tried.name not in self._race.ms:
                tried.ended = late

    def _member(self, name: str) -> Member:
        tried = self._tried[name]
        return Member.verified(
            name,
            tried.folder / VERIFY,
            _timing_log(tried),
            self._job.preload,
            sandboxed=self._job.sandbox is not None,
        )

    def _parts(self, names: Sequence[str], anchor: str) -> list[list[str]]:
        """The modules that are timed at once."""
        needs = {name: members.memory_mb(self._tried[name].folder / VERIFY) for name in names}
        return members.parts(needs, anchor, self._job.memory_mb, AT_ONCE)

    def _add_specs(self) -> None:
        """Search for tuning specs for the fastest modules. Then time these once more, beside the modules that are
        compiled with the specs."""
        given = f"{self._search.spec_flag}="  # iree-compile takes one spec only
        chosen = [
            self._tried[name]
            for name in sorted(self._race.ms, key=self._race.rank)
            if not any(flag.startswith(given) for flag in self._tried[name].way.flags)
        ][:WITH_SPECS]
        # Three runs of the compiler on the whole program (two of them without code generation), a verification, and
        # both modules are timed.
        turns_s = 2 * ratios.LEAST * self._race.member_s
        reserved = [
            2 * _seconds(tried.folder) + _seconds(tried.folder / VERIFY) + turns_s
            for tried in chosen
        ]
        while chosen and self._left() - sum(reserved) < LEAST_S * len(chosen):
            if len(chosen) == 1:
                detail = (
                    f"{max(0.0, self._left()):.0f} s were left of the budget of {self._search.budget_s:g} s; to compile, "
                    f"verify and time the module with a spec takes {sum(reserved):.0f} s"
                )
                skipped = Specs(chosen[0].name, outcome.SKIPPED, OUT_OF_BUDGET, detail, 0.0)
                self._specs.append(skipped)
            chosen, reserved = chosen[:-1], reserved[:-1]
        with_specs = []
        for number, tried in enumerate(chosen):
            budget_s = (self._left() - sum(reserved)) / (len(chosen) - number)
            if with_spec := self._with_spec(tried, budget_s, reserved[number]):
                with_specs.append(with_spec)
        self._tried |= {tried.name: tried for tried in with_specs}
        self._compile(with_specs, share=math.inf)
        self._find_same()
        self._verify(with_specs, share=math.inf)
        if any(tried.is_new for tried in with_specs):
            base = self._best(configured=True)
            self._time([*([self._original(base)] if base else []), *chosen, *with_specs], share=1.0)

    def _with_spec(self, tried: Tried, budget_s: float, reserved_s: float) -> Tried | None:
        """Search for a tuning spec for a module. Returns the candidate that is compiled with it, if there is one."""
        folder = tried.folder / "spec"
        spec, report = folder / "spec.mlir", folder / REPORT
        fields = {
            **tried.way.target,
            **self._verifies.only(*CALLED),
            "program": tried.way.program,
            "vmfb": str(tried.module),
            "budget_s": round(budget_s, 1),
        }
        request = self._request("scripts.stages.tune_dispatches", fields)
        # The limit of a compilation does not apply: the search has a budget of its own.
        limit_s = budget_s + reserved_s + LAST_S
        # Started by itself, as compilations are: it has threads, which start further processes.
        job = self._step(tried, folder, request, [spec, report], timeout_s=limit_s, preload=False)
        ended = supervise.run(job)
        seconds = self._account(job)
        self.measure_s += seconds
        specs = Specs(tried.name, ended.status, ended.reason, ended.detail, seconds)
        if ended.status == outcome.OK:
            values = msgspec.to_builtins(specs) | atomic.read_json(report)
            specs = msgspec.convert(values, Specs)
        self._specs.append(specs)
        if not any(operation.found for operation in specs.operations):
            return None
        candidate = tried.way.with_spec(self._search.spec_flag, spec)
        text = spec.read_text(encoding="utf-8")
        folder = self._folder / FOLDER / candidate.name
        return Tried(candidate, folder=folder, spec=text)

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
        request = self._request("scripts.stages.compile_iree", fields)
        # Started by itself: forked from a process that belongs to this one, it would need one of its own.
        return self._step(tried, tried.folder, request, artifacts, preload=False, owner=os.getpid())

    def _request(self, module: str, fields: dict[str, Any]) -> StageRequest:
        """A request to another stage in the environment of the job."""
        return StageRequest(module, self._verifies.python, fields)

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
        """The seconds that are left of the budget, or of a share of it."""
        return share * self._search.budget_s - self.compile_s - self.measure_s

    def _late(self, share: float) -> Outcome:
        """The outcome of a candidate for which no seconds of this share of the budget are left."""
        share_of = "" if share == 1.0 else f"{100 * share:.0f} % of "
        detail = f"{share_of}the budget of {self._search.budget_s:g} s was used up before"
        return self._skipped(OUT_OF_BUDGET, detail)

    def _skipped(self, reason: str, detail: str) -> Outcome:
        return Outcome(outcome.SKIPPED, self._job.stage, self._job.cell, reason, detail, log=str(self._job.log_path))  # fmt: skip


def _timing_log(tried: Tried) -> Path:
    """What the process of a candidate has printed while it was timed."""
    return tried.folder / "time.txt"


def _seconds(folder: Path) -> float:
    """The seconds of the step of a candidate that has its files in a folder."""
    used = outcome.read_usage(folder / outcome.STATUS)
    return used.seconds if used else 0.0
