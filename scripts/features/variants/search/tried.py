"""The candidates of a search while it runs: what has become of each, and the jobs that compile them."""

from __future__ import annotations

import multiprocessing
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from scripts.core import atomic
from scripts.features.variants.candidates import Candidate, Search, TriedWay
from scripts.features.variants.search.report import Line, Timing
from scripts.supervise import outcome, supervise
from scripts.supervise.diagnose import Diagnosis
from scripts.supervise.job import Interrupted, Job

MODULE, REPORT, VERIFY = "module.vmfb", "report.json", "verify"
"""Files of a candidate, and the folder of its verification, in its own."""
NO_CANDIDATE = "no-candidate"
"""The reason of a job of which no candidate has worked."""
POLL_SECONDS = 0.2


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
    failed = [
        candidate
        for candidate in tried
        if candidate.ended and candidate.ended.status != outcome.SKIPPED
    ]
    first = next(
        (candidate for candidate in failed if candidate.way.configured), next(iter(failed), None)
    )
    if first is None or first.ended is None:
        said = next(
            (candidate.ended.detail for candidate in tried if candidate.ended), "there is none"
        )
        return Diagnosis("error", NO_CANDIDATE, f"no candidate could be tried: {said}")
    ended = first.ended
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
