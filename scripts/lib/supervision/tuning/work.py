"""Finds the fastest of many ways to compile a model: compiles them, verifies and times each, and reports all.

The candidates are compiled beside each other and measured one after another, each as a job of its own
with its own log and outcome, so that a crash or a hang of one is a line of the report. Candidates with
the same module are measured once. Measuring is by successive halving (Jamieson and Talwalkar 2016,
"Non-stochastic best arm identification and hyperparameter optimization"): all get few repetitions, and
in each further round the fastest ones get twice as many. A latency counts only if the results of its
process were verified.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import shutil
import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from scripts.lib.core import atomic
from scripts.lib.supervision import outcome, supervise
from scripts.lib.supervision.caplog import CappedLog
from scripts.lib.supervision.diagnose import Diagnosis
from scripts.lib.supervision.job import Job
from scripts.lib.supervision.outcome import Outcome, Usage
from scripts.lib.supervision.supervise import Ran
from scripts.lib.supervision.tuning import beside
from scripts.lib.supervision.tuning.candidates import Candidate, Search
from scripts.lib.supervision.tuning.report import Report, Specs, Timed
from scripts.lib.supervision.tuning.tried import (
    NOT_APPLICABLE,
    OUT_OF_BUDGET,
    REPORT,
    Tried,
    said,
    why_none,
)
from scripts.lib.supervision.watch import Ended
from scripts.lib.timing.stopping import StoppingRule

FOLDER = "candidates"
"""Folder of the candidates, in that of the job."""
MEASUREMENT = "measurement.json"
COMPILING = 0.5
"""Share of the budget that compilations may take."""
AT_MOST = 0.25
"""Share of the budget that one step of a candidate may take, unless the candidate is configured."""
GROWTH = 2
"""The repetitions of a round, divided by those of the round before."""
FIRST = StoppingRule(repeat=3, repetition_s=0.1, warmup_s=0.1, budget_s=1, rounds=1)
"""The stopping rule of the first round."""
WITH_SPECS = 2
"""How many modules a tuning spec is searched for: the fastest ones of the last round."""
GIVEN = ("--weights", "--inputs", "--signature", "--device", "--threads")
"""Options of the command that measures which the search for a spec has too."""
LEAST_S = 10.0
"""Seconds without which a search for a spec is not begun: a dozen trials of one dispatch."""
LAST_S = 90.0
"""Seconds that a search for a spec may take beyond its own: the last trial is ended, and the module is profiled."""


def work(search: Search, at_once: int) -> supervise.Work:
    """Return the work of a job that searches. `at_once`: how many candidates are compiled at a time.

    The command of the job measures its first artifact; the second one is the module of the fastest
    configured candidate, the third one the report.
    """

    def run(job: Job, owner: int, scratch: Path, log: CappedLog) -> Ran:
        tuner = _Tuner(dataclasses.replace(job, journal=None), owner, search, at_once, log)
        with beside.one_at_a_time(job, owner):
            fault = tuner.run()
        tuner.place(scratch)
        seconds = tuner.compile_s + tuner.measure_s
        ended = Ended(0, seconds, tuner.peak_mb, startup_s=0.0, alone_s=tuner.measure_s)
        return Ran(ended, supervise.digests(job, scratch), fault)

    return run


class _Tuner:
    """One search. `compile_s`, `measure_s`: the seconds that it has taken so far (see Report)."""

    def __init__(self, job: Job, owner: int, search: Search, at_once: int, log: CappedLog) -> None:
        self._job, self._owner, self._search, self._log = job, owner, search, log
        self._at_once = max(1, at_once)
        self._folder = job.status_path.parent
        shutil.rmtree(self._folder / FOLDER, ignore_errors=True)
        self._tried = [Tried(one, self._folder / FOLDER / one.name) for one in search.candidates]
        self._specs: list[Specs] = []
        self._rule, self._round = FIRST, 1
        self.compile_s, self.measure_s, self.peak_mb = 0.0, 0.0, 0.0

    def run(self) -> Diagnosis | None:
        """Try the candidates. Returns why none of them has worked, or None."""
        self._leave_out()
        self._compile(self._tried, COMPILING * self._before_specs)
        self._find_same()
        self._measure()
        if self._search.specs:
            self._add_specs()
        self._share()
        for one in self._tried:
            if one.ended is not None and one.ended.reason == outcome.DISK_FULL:
                return Diagnosis("error", outcome.DISK_FULL, one.ended.detail)
        return None if self._best() else why_none(self._tried)

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
            specs=tuple(self._specs),
        )
        atomic.write_json(report, msgspec.to_builtins(found))
        options = dict(pairwise(self._job.command))
        shutil.rmtree(options.get("--raw-inputs", self._folder / "inputs"), ignore_errors=True)
        for one in self._tried:
            one.module.unlink(missing_ok=True)
            self._log.note(f"# {said(one)}")

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
            elif texts[of.program] and (why := self._search.why_not(of, texts[of.program])):
                one.ended = self._skipped(one, NOT_APPLICABLE, why)

    def _compile(self, candidates: Sequence[Tried], share: float) -> None:
        """Compile candidates, several at a time, as long as their share of the budget lasts. What is
        configured is compiled in any case."""
        todo = [one for one in candidates if one.ended is None]
        jobs = {str(one.folder / outcome.STATUS): one for one in todo}

        def wanted() -> Iterator[Job]:
            for one in todo:
                if one.candidate.configured or self._left(share) > 0:
                    yield self._compile_job(one)

        for done in beside.beside(wanted(), self._at_once, self._owner):
            one = jobs[str(done.status_path)]
            one.ended = outcome.read_or_damaged(done.status_path)
            self.compile_s += self._account(done) / self._at_once
        for one in todo:
            if one.ended is None:
                one.ended = self._skipped(one, OUT_OF_BUDGET, self._budget_said(share))

    def _find_same(self) -> None:
        """Hash the modules. The later one of two that are the same is not measured."""
        first: dict[str, Tried] = {}
        for one in self._tried:
            # Found before: what has failed since then is still the first one with its module.
            if one.digest:
                first.setdefault(one.digest, one)
            elif one.is_ok:
                one.digest = hashlib.sha256(one.module.read_bytes()).hexdigest()
                same = first.setdefault(one.digest, one)
                one.same_as = "" if same is one else same.candidate.name

    @property
    def _before_specs(self) -> float:
        """The share of the budget for what comes before the search for tuning specs."""
        return 1.0 - self._search.specs

    def _measure(self) -> None:
        """Measure the modules in rounds; the fastest ones of each round take part in the next one."""
        left = [one for one in self._tried if one.is_ok and not one.same_as]
        share = self._before_specs
        while left:
            self._measure_round(left, share)
            if len(left) <= 2 or self._left(share) <= 0:
                break
            passed = [one for one in left if one.is_ok and one.reached == self._round]
            passed.sort(key=lambda one: one.rank)
            left = passed[: max(2, math.ceil(len(passed) * self._search.keep))]
            rule = self._rule
            self._rule = dataclasses.replace(rule, repeat=rule.repeat * GROWTH, budget_s=rule.budget_s * GROWTH)  # fmt: skip
            self._round += 1

    def _measure_round(self, taking_part: Sequence[Tried], share: float) -> None:
        """Measure candidates once, as long as this share of the budget lasts."""
        without_device: Outcome | None = None
        for one in taking_part:
            is_first = not one.rounds
            if without_device:
                one.ended = without_device
                continue
            if not (is_first and one.candidate.configured) and self._left(share) <= 0:
                if is_first:
                    one.ended = self._skipped(one, OUT_OF_BUDGET, self._budget_said(share))
                continue
            self._measure_one(one)
            if one.ended and one.ended.status == outcome.UNAVAILABLE:
                without_device = one.ended

    def _add_specs(self) -> None:
        """Search for tuning specs for the fastest modules. Then measure these once more, beside the modules that are
        compiled with the specs."""
        passed = [
            one
            for one in self._tried
            if one.is_ok and one.rounds and not one.same_as and not self._has_spec(one.candidate)
        ]
        chosen = sorted(passed, key=lambda one: one.rank)[:WITH_SPECS]
        # Three runs of the compiler on the whole program (two of them without code generation), and both modules are
        # measured.
        reserved = [
            2 * (_seconds(one.folder) + _seconds(one.folder / f"round-{one.reached}"))
            for one in chosen
        ]
        while chosen and self._left() - sum(reserved) < LEAST_S * len(chosen):
            if len(chosen) == 1:
                self._specs.append(self._no_spec(chosen[0], sum(reserved)))
            chosen, reserved = chosen[:-1], reserved[:-1]
        made = []
        for number, one in enumerate(chosen):
            budget_s = (self._left() - sum(reserved)) / (len(chosen) - number)
            if found := self._with_spec(one, budget_s, reserved[number]):
                made.append(found)
        self._tried += made
        self._compile(made, share=math.inf)
        self._find_same()
        if new := [one for one in made if one.is_ok and not one.same_as]:
            self._round += 1
            self._measure_round([*chosen, *new], share=math.inf)

    def _no_spec(self, one: Tried, reserved_s: float) -> Specs:
        """Why no tuning spec is searched for, even for the fastest module."""
        detail = (
            f"{max(0.0, self._left()):.0f} s were left of the budget of {self._search.budget_s:g} s; to compile and to "
            f"measure the module with a spec takes {reserved_s:.0f} s"
        )
        return Specs(one.candidate.name, outcome.SKIPPED, OUT_OF_BUDGET, detail, 0.0)

    def _has_spec(self, candidate: Candidate) -> bool:
        """Whether the flags of a candidate name a tuning spec. iree-compile takes one only."""
        return any(flag.startswith(f"{self._search.spec_flag}=") for flag in candidate.flags)

    def _with_spec(self, one: Tried, budget_s: float, reserved_s: float) -> Tried | None:
        """Search for a tuning spec for a module. Returns the candidate that is compiled with it, if there is one."""
        folder = one.folder / "spec"
        spec, report = folder / "spec.mlir", folder / REPORT
        of_measurement = dict(pairwise(self._job.command))
        command = [
            *(self._job.command[0], "-m", "scripts.tune_dispatches"),
            *("--program", one.candidate.program, *one.candidate.options, "--vmfb", str(one.module)),
            *(word for key in GIVEN if key in of_measurement for word in (key, of_measurement[key])),
            *("--budget-s", f"{budget_s:.1f}", "--out-spec", str(spec), "--out-report", str(report)),
        ]  # fmt: skip
        # The limit of a compilation does not apply: the search has a budget of its own.
        limit_s = budget_s + reserved_s + LAST_S
        # Started by itself, as compilations are: it has threads, which start further processes.
        job = self._step(one, folder, command, [spec, report], timeout_s=limit_s, preload=False)
        ended = supervise.run(job)
        seconds = self._account(job)
        self.measure_s += seconds
        found = atomic.read_json(report) if ended.status == outcome.OK else {}
        searched = {"status": ended.status, "reason": ended.reason, "detail": ended.detail}
        made = msgspec.convert(
            {"candidate": one.candidate.name, "seconds": seconds} | searched | found, Specs
        )
        self._specs.append(made)
        if not any(operation.found for operation in made.operations):
            return None
        candidate = one.candidate.with_spec(self._search.spec_flag, spec)
        text = spec.read_text(encoding="utf-8")
        return Tried(candidate, self._folder / FOLDER / candidate.name, spec=text)

    def _measure_one(self, one: Tried) -> None:
        """Verify and time a candidate. One that fails in a later round has failed."""
        one.step = "measure"
        job = self._measure_job(one)
        one.ended = supervise.run(job)
        self.measure_s += self._account(job)
        if one.is_ok:
            values = atomic.read_json(job.artifacts[0])["latency"]["values_ms"]
            one.rounds.append(Timed(statistics.median(values), len(values)))
            one.reached = self._round

    def _share(self) -> None:
        """Give the outcome and the rounds of a module to all candidates that have it."""
        for one in self._tried:
            if one.same_as:
                original = self._original(one)
                one.step, one.ended, one.rounds, one.reached = original.step, original.ended, original.rounds, original.reached  # fmt: skip

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

    def _measure_job(self, one: Tried) -> Job:
        folder, rule = one.folder / f"round-{self._round}", self._rule
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


def _seconds(folder: Path) -> float:
    """The seconds of the step of a candidate that has its files in a folder."""
    used = outcome.read_usage(folder / outcome.STATUS)
    return used.seconds if used else 0.0
