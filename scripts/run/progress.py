"""The progress of a run: the lock on results/, running and finished jobs, the remaining time, and failures.

On a terminal this is one line at the bottom that is redrawn, and a line per failure. In a log (no terminal, or CI) it is a line per
finished job, and a progress line at most once a minute. Latencies are timed during a run, so the line is drawn when a job starts
or ends, because Snakemake itself works at these times, and by a timer only while no measurement runs.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from scripts.config import stages
from scripts.config.rows import Matrix
from scripts.config.stages import STATUS, TIMING
from scripts.core import atomic, temporary
from scripts.core.console import Console
from scripts.run import outputs
from scripts.supervise import journal, outcome
from scripts.supervise.outcome import Outcome

LOGS = Path("results/logs")
JOURNAL = LOGS / "journal.jsonl"


class OtherRunError(RuntimeError):
    """Another run holds the lock. `holder`: the id of its process; "" if it is not known."""

    def __init__(self, holder: str) -> None:
        super().__init__(
            f"another run (process {holder or 'unknown'}) is writing to results/; wait for it or stop it"
        )
        self.holder = holder


def take_lock() -> TextIO:
    """Take the lock on results/, which lasts until the file is closed or the process ends, however it ends. Raises
    OtherRunError."""
    LOGS.mkdir(parents=True, exist_ok=True)
    lock = (LOGS / "run.lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with lock:
            lock.seek(0)
            raise OtherRunError(lock.read().strip()) from None
    return lock


class RunLog:
    """Holds the lock of one run, and marks its start. `started`: whether this run has the lock. `before`: the tables that were
    there at its start."""

    def __init__(self) -> None:
        self._lock: TextIO | None = None
        self._began = 0.0, 0.0
        self.started = False
        self.before: outputs.Versions = {}

    def now(self) -> float:
        """Seconds since the epoch, by the clock as it was when this run began: it may have been set since."""
        began, at = self._began
        return began + time.monotonic() - at

    def start(self, matrix: Matrix, command_line: Mapping[str, Any] | None = None) -> None:
        """Take the lock on results/, and write the matrix and the command line, as far as it is about the configuration;
        None if that is not known. Raises OtherRunError."""
        self._lock = lock = take_lock()
        temporary.clear()
        for folder in (LOGS, LOGS.parent):
            atomic.clear(folder)
        self.before = outputs.versions()
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self.started = True
        atomic.write_json(LOGS / "matrix.json", matrix.to_json())
        atomic.write_json(LOGS / "command_line.json", command_line)
        self._began = journal.begin(JOURNAL), time.monotonic()


@dataclass(frozen=True)
class Finished:
    """A finished job: its line in a log, and its shorter failure line ("" if it did not fail). `outcome`: None if it has none
    or it cannot be read; `seconds`: None if they are not known."""

    line: str
    failure: str = ""
    outcome: Outcome | None = None
    seconds: float | None = None

    @property
    def is_nothing(self) -> bool:
        """Whether the job had nothing to do."""
        return (
            self.outcome is not None
            and self.outcome.status in (outcome.OK, outcome.SKIPPED)
            and self.seconds is not None
            and self.seconds < LEAST_S
        )


def finished(
    rule: str,
    outputs: Sequence[str],
    done: int,
    total: int,
    may_make_good: Callable[[str, str], bool] = lambda *_: False,
) -> Finished:
    """Return the lines of a finished job: outcome, seconds, and the reason of a failure. `may_make_good`: whether a failed stage of
    a cell (its folder, the cell's name) may be made good; then it has failed when nothing has made it good.

    If a file of the stage is missing or cannot be read, the line says so.
    """
    counter = f"[{done:{len(str(total))}}/{total}]"
    status = next((Path(o) for o in outputs if o.endswith("status.json")), None)
    if status is None:
        return Finished(f"{counter} {rule}")
    try:
        ended = outcome.read(status)
    except (OSError, ValueError) as error:
        return Finished(_one_line(f"{counter} {rule}  {error}"), _one_line(f"{rule}: {error}"))
    seconds, broken = None, ""
    try:
        if usage := outcome.read_usage(status):
            seconds = usage.seconds
        else:
            broken = f"  {outcome.usage_path(status)} is missing"
    except (OSError, ValueError) as error:
        broken = f"  {error}"
    shown = "?" if seconds is None else f"{seconds:.1f}"
    said = f"{counter} {ended.stage:14} {ended.cell:44} {ended.status:11} {shown:>6} s"
    if ended.status == outcome.SKIPPED and ended.blocked_by:
        said += f"  blocked by {ended.blocked_by}"
    elif ended.status != outcome.OK:
        said += f"  {ended.reason}: {ended.detail}"
    if len(said) > (width := max(100, _width())):
        said = said[: width - 1] + "…"
    failed = ended
    repaired = stages.made_good_by(ended.stage)
    if repaired and ended.status == outcome.SKIPPED and may_make_good(repaired.folder, ended.cell):
        failed = outcome.read_or_damaged(Path(repaired.path(ended.cell, STATUS)))
    elif may_make_good(ended.stage, ended.cell):
        failed = replace(ended, status=outcome.OK)
    failure = ""
    if failed.status in outcome.FAILED:
        failure = (
            f"{failed.stage} {failed.cell}: {failed.status} ({failed.reason}): {failed.detail}"
        )
    return Finished(_one_line(said + broken), _one_line(failure or broken.strip()), ended, seconds)


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def _width() -> int:
    return shutil.get_terminal_size((160, 24)).columns


TICK_S = 5.0
"""Seconds between two drawings of the line while no job starts or ends."""
LOG_S = 60.0
"""Minimum seconds between two progress lines in a log."""
LONG_S = 10.0
"""The time of a job is shown once it has run for this many seconds."""
LEAST_S = 0.05
"""A job that took less, 0.0 s, and did not fail had nothing to do, and has no line in a log."""

STAGE_OF_RULE = {stage.rule: stage.folder for stage in stages.STAGES.values()}
_CLEAR = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))


class Live:
    """Follows the jobs of a run; the caller reports Snakemake's events with `begun` and so on. `may_make_good`: see `finished`.
    `budget_s`: see TimeLeft."""

    def __init__(
        self,
        console: Console,
        clock: Callable[[], float] = time.monotonic,
        may_make_good: Callable[[str, str], bool] = lambda *_: False,
        budget_s: float | None = None,
    ) -> None:
        self._console, self._clock = console, clock
        self._may_make_good = may_make_good
        self._left = TimeLeft(budget_s)
        self._absent: set[tuple[str, str]] = set()
        self._draws = (
            console.is_terminal and not console.is_dumb_terminal and not os.environ.get("CI")
        )
        self._running: dict[int, tuple[str, list[str], float]] = {}
        self._done, self._total, self._failed = 0, 0, 0
        self._is_drawn, self._logged = False, clock()
        self._lock, self._over = threading.RLock(), threading.Event()

    def start(self) -> None:
        """Start the timer of the line."""
        if self._draws:
            threading.Thread(target=self._tick, daemon=True).start()

    def planned(self, jobs: Mapping[str, int]) -> None:
        """Set the number of jobs to run: per rule, and `total`."""
        counts = {rule: count for rule, count in jobs.items() if rule != "total"}
        of_stages: Counter[str] = Counter()
        for rule, count in counts.items():
            of_stages[_stage(rule)] += count
        self._left.planned(of_stages)
        self._total = jobs.get("total", sum(counts.values()))

    def idle(self, rules: Iterable[str]) -> None:
        """Report jobs to come that have nothing to do, each by its rule."""
        self._left.idle(Counter(map(_stage, rules)))

    def begun(self, job: int, rule: str, outputs: Sequence[str]) -> None:
        """Report that a job of a rule has started."""
        with self._lock:
            now = self._clock()
            self._running[job] = rule, list(outputs), now
            self._left.begun(job, _stage(rule), now)
            if self._draws:
                self._draw()
            elif rule == stages.STAGES["env"].rule:  # minutes, the first time
                self._print(f"making environment {_cell(rule, outputs).split()[-1]} …")

    def stopped(self, job: int) -> None:
        """Report that a job has ended without an outcome; it may be started again."""
        with self._lock:
            if job in self._running:
                del self._running[job]
                self._left.stopped(job, self._clock())

    def finished(self, job: int, done: int, total: int) -> None:
        """Report that a job has finished; `done` of `total` jobs have finished by now."""
        with self._lock:
            rule, outputs, _ = self._running.pop(job, ("", [], 0.0))
            self._left.ended(job, self._clock())
            self._done, self._total = done, total
            ended = finished(rule, outputs, done, total, self._may_make_good)
            self._failed += bool(ended.failure)
            if not self._draws:
                if not ended.is_nothing and not self._is_known_absence(ended.outcome):
                    self._print(ended.line)
                self._log()
            elif ended.failure:
                self._print(Text.assemble(("✗ ", "red"), ended.failure), crop=True)
            if self._draws:
                self._draw()

    def _is_known_absence(self, ended: Outcome | None) -> bool:
        """Whether another job has said already that this device is missing."""
        if ended is None or ended.status != outcome.UNAVAILABLE:
            return False
        missing = ended.reason, ended.detail
        is_known = missing in self._absent
        self._absent.add(missing)
        return is_known

    def aside(self) -> None:
        """Clear the line, before something else is printed in its place."""
        with self._lock:
            if self._is_drawn:
                self._console.control(_CLEAR)
                self._is_drawn = False

    def end(self) -> None:
        """Clear the line, and draw nothing from now on."""
        self._over.set()
        self.aside()

    def _tick(self) -> None:
        while not self._over.wait(TICK_S):
            with self._lock:
                if not any(_stage(rule) in TIMED for rule, _, _ in self._running.values()):
                    self._draw()

    def _draw(self) -> None:
        self.aside()
        if self._running and not self._over.is_set():
            # The cursor stays at the beginning, so that other output replaces the line.
            line = self._line()
            line.truncate(self._console.width - 1, overflow="ellipsis")
            self._console.print(line, end="\r", no_wrap=True, overflow="ignore", crop=False)
            self._is_drawn = True

    def _log(self) -> None:
        if self._running and self._clock() - self._logged >= LOG_S:
            self._logged = self._clock()
            self._print(self._line())

    def _line(self) -> Text:
        """Return `47/361 · about 12 min left · 2 failed · compile bert/torch/rocm 72 s`."""
        now = self._clock()
        left = self._left.seconds(now)
        parts = [
            Text(f"{self._done}/{self._total}", style="bold"),
            Text(f"about {words(left)} left"),
        ]
        if self._failed:
            parts.append(Text(f"{self._failed} failed", style="red"))
        running = ", ".join(
            _cell(rule, outputs) + (f" {words(now - at)}" if now - at >= LONG_S else "")
            for rule, outputs, at in self._running.values()
        )
        return Text(" · ").join([*parts, Text(running, style="dim")])

    def _print(self, line: str | Text, crop: bool = False) -> None:
        self.aside()
        text = Text(line) if isinstance(line, str) else line
        if crop:
            text.truncate(self._console.width, overflow="ellipsis")
        self._console.print(text, soft_wrap=True)


def words(seconds: float) -> str:
    """Return `50 s`, `12 min` or `3 h 20 min`."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _stage(rule: str) -> str:
    return STAGE_OF_RULE.get(rule, rule)


def _cell(rule: str, outputs: Sequence[str]) -> str:
    """Return the stage and cell of a job: `compile bert/torchmlir-torch/rocm`."""
    status = next((Path(o) for o in outputs if Path(o).name == STATUS), None)
    if status is None or rule not in STAGE_OF_RULE:
        return rule
    stage = STAGE_OF_RULE[rule]
    folders = status.parent.parts
    below = folders[folders.index(stage) + 1 :] if stage in folders else folders[-1:]
    return f"{stage} {'/'.join(below)}"


TYPICAL_S = {
    "env": 27.0,
    "reference": 4.0,
    "export": 3.7,
    "compile": 4.1,
    "remedy": 0.3,
    "tune": 200.0,
    "baseline": 7.5,
    "verify": 0.4,
    "machine_limits": 40.0,
    "time": 50.0,
    "time_tuned": 50.0,
    "trace": 6.0,
    "operator_reference": 6.0,
    "operator_export": 8.0,
    "operator_compile": 10.0,
    "operator_verify": 8.0,
    "operator_baseline": 8.0,
    "operator_time": 80.0,
}
"""Seconds that a job of each stage is charged, in the default run on two cores (an Intel Xeon)."""
OTHER_S = 5.0
PER_BUDGET = 2.5
"""Seconds of a group per second of its budget: its processes are loaded and warmed up too."""
DOUBT_S = 300.0
"""Weight, in seconds, of the assumption that this machine builds as fast as that one. The first jobs read files that are not in
memory yet, and are those of the largest models."""
DOUBT_JOBS = 16
"""Weight, in jobs, of what is expected of a stage before its jobs have ended."""
IDLE_S = 0.5
"""A group that took less had no member to time (TimeLeft.idle)."""
LEAST_SHARE = 0.25
"""The share of its expected seconds that a job that runs still needs at least."""

TIMED = frozenset(stage.folder for stage in stages.STAGES.values() if TIMING in stage.aggregated)
"""Folders of the stages that time latencies."""


@dataclass
class _Job:
    stage: str
    charged_s: float = 0.0


class TimeLeft:
    """How long a run still takes. `budget_s`: the budget of a group (measure/timing/turns.py); None if it is not known. Times are those of one
    clock, in seconds. `python -m benchmarks.time_left` replays the journal of a run.

    While n jobs run, each of them is charged 1/n of the time that passes, so the charges of all jobs add up to the wall time on any
    number of cores. A job to come is expected to be charged what the jobs of its stage were in this run, and as long as these are few,
    what TYPICAL_S says. For builds this is scaled as all builds of this run were, but neither for environments, which depend on the
    network, nor for timings, which have a budget.
    """

    def __init__(self, budget_s: float | None = None) -> None:
        own = dict.fromkeys(("time", "time_tuned"), PER_BUDGET * budget_s) if budget_s else {}
        self._typical_s = TYPICAL_S | own
        self._to_come: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._charged_s: defaultdict[str, float] = defaultdict(float)
        self._running: dict[int, _Job] = {}
        self._now = 0.0

    def planned(self, jobs: Mapping[str, int]) -> None:
        """Set the number of jobs to come, by stage."""
        self._to_come = Counter(jobs)

    def idle(self, jobs: Mapping[str, int]) -> None:
        """Set how many of the jobs to come have nothing to do, by stage."""
        self._to_come.subtract(jobs)

    def begun(self, job: int, stage: str, now: float) -> None:
        """Report that a job has started."""
        self._charge(now)
        self._running[job] = _Job(stage)
        self._to_come[stage] -= 1

    def stopped(self, job: int, now: float) -> None:
        """Report that a job has ended without an outcome; it may be started again."""
        self._charge(now)
        self._to_come[self._running.pop(job).stage] += 1

    def ended(self, job: int, now: float) -> None:
        """Report that a job has ended."""
        self._charge(now)
        if ended := self._running.pop(job, None):
            if ended.stage in TIMED and ended.charged_s < IDLE_S:
                self._to_come[ended.stage] += 1  # it was none of those to come
                return
            self._ended[ended.stage] += 1
            self._charged_s[ended.stage] += ended.charged_s

    def seconds(self, now: float) -> float:
        """Return the seconds until the jobs that run and those to come have ended."""
        self._charge(now)
        left = sum(self._expected_s(stage) * count for stage, count in (+self._to_come).items())
        for job in self._running.values():
            expected_s = self._expected_s(job.stage)
            left += max(expected_s - job.charged_s, LEAST_SHARE * expected_s)
        return left

    def _charge(self, now: float) -> None:
        passed_s, self._now = now - self._now, now
        for job in self._running.values():
            job.charged_s += passed_s / len(self._running)

    def _expected_s(self, stage: str) -> float:
        """What a job of a stage is charged."""
        prior_s = self._typical(stage) * (self._slower() if _is_built(stage) else 1.0)
        return (DOUBT_JOBS * prior_s + self._charged_s[stage]) / (DOUBT_JOBS + self._ended[stage])

    def _slower(self) -> float:
        """How much longer builds took than typical ones. What a job that runs has been charged beyond that counts too."""
        charged_s = typical_s = DOUBT_S
        for stage, count in self._ended.items():
            if _is_built(stage):
                charged_s += self._charged_s[stage]
                typical_s += self._typical(stage) * count
        for job in self._running.values():
            if _is_built(job.stage):
                charged_s += max(0.0, job.charged_s - self._typical(job.stage))
        return charged_s / typical_s

    def _typical(self, stage: str) -> float:
        return self._typical_s.get(stage, OTHER_S)


def _is_built(stage: str) -> bool:
    return stage != "env" and stage not in TIMED
