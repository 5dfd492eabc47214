"""The result of a bisection: both sides as reproducers, all trials, and the text of an issue."""

from __future__ import annotations

import dataclasses
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import Version

from scripts.core import atomic
from scripts.core.requests import StageRequest, plain
from scripts.features.compare import code_changes
from scripts.features.compare.bisection.trial import DISPATCHES, PASSES, Subject, Trial
from scripts.features.reproduce import bundling, issue
from scripts.features.reproduce.case import COMPILE, Case
from scripts.iree import shell, tools
from scripts.iree.backends import renamed
from scripts.records import markdown
from scripts.supervise import outcome

REPORT = "bisection.json"
PROFILER = "iree-profile"
MOST = 10
"""Operations that are listed."""


class NoProfile(Exception):
    """A release whose dispatches or passes cannot be timed. Says why."""


@dataclass(frozen=True)
class Result:
    """`asked`: the value of --if. `trials`: those that were made. `before` and `after`: the last release like the
    good end and the first one like the bad end, in the order from the good end to the bad one. `between`: releases
    between these two that are neither."""

    subject: Subject
    asked: str
    trials: Sequence[Trial]
    before: Trial
    after: Trial
    between: tuple[str, ...]

    @property
    def is_improvement(self) -> bool:
        """Whether the good end is the newer one."""
        return Version(self.before.version) > Version(self.after.version)

    @property
    def in_time(self) -> tuple[Trial, Trial]:
        """The trials of the last release of the old behaviour, and of the first one of the new behaviour."""
        return (self.after, self.before) if self.is_improvement else (self.before, self.after)

    @property
    def by_version(self) -> list[Trial]:
        return sorted(self.trials, key=lambda trial: Version(trial.version))

    @property
    def sentence(self) -> str:
        """What was found, in one sentence."""
        last, first = self.in_time
        kind = "good" if self.is_improvement else "bad"
        text = (
            f"{self.subject.case.cell}: {first.version} is the first {kind} release: {first.words}"
            f" ({last.version}: {last.words})"
        )
        if not self.between:
            return text
        return f"{text}. Between the two, {', '.join(self.between)} could not be judged"


def write(result: Result, folder: Path, bundle: Path) -> None:
    """Write the result into a folder, which is emptied first. `bundle`: the folder of the cell's bundle, whose reduced program
    the issue has if there is one of the same program."""
    shutil.rmtree(folder, ignore_errors=True)
    for trial in (result.before, result.after):
        below = folder / trial.version
        bundling.write(_side(result.subject.case, trial), below, with_weights=False)
        (below / issue.ISSUE).unlink()  # the one issue is about both sides
    report = {
        "cell": result.subject.case.cell,
        "if": result.asked,
        "good": result.before.version,
        "bad": result.after.version,
        "first": result.in_time[1].version,
        "between": list(result.between),
        "trials": [
            {
                "version": trial.version,
                "compiler": trial.said,
                **{key: getattr(trial.outcome, key) for key in ("status", "stage", "reason", "detail")},
                **{key: trial.report.get(key) for key in ("vmfb_bytes", "dispatch_count", "compile_s", "cpu_s", "latency_ms")},
            }
            for trial in result.by_version
        ],
    }  # fmt: skip
    atomic.write_json(folder / REPORT, report)
    program = bundle / bundling.PROGRAM
    is_same = (
        program.is_file()
        and program.read_bytes() == result.subject.case.files[program.name].read_bytes()
    )
    _write_issue(result, folder, bundling.described_reduction(bundle) if is_same else "")


def _side(case: Case, trial: Trial) -> Case:
    """The case of one side: the outcome of this release, with its version."""
    ended = trial.outcome
    return dataclasses.replace(
        case,
        ended=dataclasses.replace(ended, stage=COMPILE) if ended.stage == "env" else ended,
        log=trial.log,
        flags=tuple(renamed(case.flags, trial.version)),
        latency_ms=None,
        versions={**case.versions, "iree": trial.version},
    )


def _write_issue(result: Result, folder: Path, reduced: str) -> None:
    """Write the issue about the change, with the commands that show the bad side. `reduced`: about the reduced program."""
    case, before, after = result.subject.case, result.before, result.after
    last, first = result.in_time
    tried = [(trial.version, trial.words) for trial in result.by_version]
    between = f" ({', '.join(result.between)} could not be judged)" if result.between else ""
    happened = (
        f"A program that {case.exporter} exported (input dialect: {case.dialect}), with the same flags:\n\n"
        f"{markdown.table(('IREE', 'result'), tried)}\n"
        f"{first.version} is the first release of the new behaviour, {last.version} the last one of the old{between}:\n\n"
        f"- {last.said or last.version}\n- {first.said or first.version}"
    )
    if account := ACCOUNTS.get(result.subject.account):
        happened += f"\n\n{account(result)}"
    elif not after.is_ok:
        log = after.log.read_text(encoding="utf-8", errors="replace") if after.log.is_file() else ""
        happened += f"\n\n{issue.fenced('text', issue.clipped(log, after.outcome.detail))}"
    if reduced:
        happened += f"\n\n{reduced}"
    what = f"{'no longer ' if result.is_improvement else ''}{result.asked}"
    steps = issue.fenced("sh", shell.steps(folder / after.version / bundling.SCRIPT))
    issue.write(
        folder,
        issue.IREE,
        f"[since {first.version}: {what}] {issue.shortened(after.outcome.detail, case.cell)}",
        {
            "What happened?": happened,
            "Steps to reproduce your issue": f"`{after.version}/run.sh` (bad) and `{before.version}/run.sh` (good) in the attached folder do this "
            f"with the wheels of the two releases:\n\n{steps}",
            "Additional context": f"Cell `{case.cell}` of vmfbench; found by bisecting releases.",
        },
    )


def _dispatches(result: Result) -> str:
    """What an issue says of the dispatches that became slower: a table, or why there is none."""
    before, after = result.before, result.after
    try:
        changes = moved(*(_profile(result.subject, trial) for trial in (before, after)))
    except NoProfile as error:
        return f"There is no comparison of dispatches: {error}."
    rows = [
        (change.what, f"{change.before_ms:.3g}", f"{change.after_ms:.3g}", ", ".join(map(markdown.code, change.functions)))
        for change in changes
    ]  # fmt: skip
    head = ("operation", f"ms with {before.version}", f"ms with {after.version}", "dispatches")
    return markdown.table(head, rows, (1, 2)).strip()


def _passes(result: Result) -> str:
    """What an issue says of the passes that take longer: a table, or why there is none."""
    before, after = result.before, result.after
    try:
        times = [_compilation(result.subject, trial) for trial in (before, after)]
    except NoProfile as error:
        return f"There is no comparison of passes: {error}."
    changes = code_changes.pass_changes_between(result.subject.case.cell, *times)
    rows = [
        (each.name, f"{each.before_s:.2f}", f"{each.after_s:.2f}", f"{each.share:+.1%}")
        for each in changes[: MOST + 1]
    ]
    head = ("pass", f"s with {before.version}", f"s with {after.version}", "share of all before")
    table = markdown.table(head, rows, (1, 2, 3)).strip()
    return f"Seconds of iree-compile on one thread, measured once:\n\n{table}"


def _compilation(subject: Subject, trial: Trial) -> Mapping[str, Any]:
    """Where the time of iree-compile of a release goes, on one thread. Raises NoProfile."""
    program, python = subject.case.files["program.mlir"], trial.python
    if python is None:
        raise NoProfile(f"{trial.version} does not compile")
    folder = trial.log.parent / "compile-time"
    report = folder / "compile.json"
    fields = {
        **subject.target,
        "program": program,
        "toolchain": trial.version,
        "locations": program.with_name("locations.json"),
        "limit_s": subject.timeout_s,
    }
    request = StageRequest("scripts.stages.profile_compile", str(python), plain(fields))
    ended = subject.run("compile time", folder, request, [report])
    if ended.status != outcome.OK:
        raise NoProfile(f"the compilation of {trial.version} was not profiled: {ended.detail}")
    data = atomic.read_json(report)
    if data["program"]["status"] != outcome.OK:
        raise NoProfile(f"{trial.version}: {data['program']['detail']}")
    return data


ACCOUNTS = {DISPATCHES: _dispatches, PASSES: _passes}
"""What an issue explains a change by, by Subject.account."""


@dataclass(frozen=True)
class Moved:
    """Dispatches with the same operation of the captured graph at their root: its name, and their milliseconds per
    call before and after. `functions`: the dispatches of both releases."""

    what: str
    before_ms: float
    after_ms: float
    functions: tuple[str, ...]


def moved(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[Moved]:
    """Return the operations whose dispatches differ most in time, those that became slower first.

    Releases name and fuse dispatches differently, so they are matched by the operation that each of them computes at
    its root.
    """
    times = defaultdict[str, list[float]](lambda: [0.0, 0.0])
    functions = defaultdict[str, dict[str, None]](dict)
    for side, dispatches in enumerate((before, after)):
        for dispatch in dispatches:
            what = dispatch["function"]
            if dispatch["nodes"]:
                node, operator, module = dispatch["nodes"][0]
                what = f"{operator} ({module or node})"
            times[what][side] += dispatch["ms"]
            functions[what][dispatch["function"]] = None
    changes = [Moved(what, ms[0], ms[1], tuple(functions[what])) for what, ms in times.items()]
    return sorted(changes, key=lambda change: change.before_ms - change.after_ms)[:MOST]


def _profile(subject: Subject, trial: Trial) -> list[dict[str, Any]]:
    """The dispatches of a release with their times, by iree-profile. Raises NoProfile."""
    case, python, vmfb = subject.case, trial.python, trial.vmfb
    if python is None or vmfb is None or not case.threads:
        raise NoProfile(f"the module of {trial.version} was not run on a CPU")
    if tools.program(PROFILER, python.parent.parent) is None:
        raise NoProfile(f"IREE {trial.version} has no {PROFILER}")
    folder, files = vmfb.parent / "profile", case.files
    report = folder / "profile.json"
    fields = {
        **subject.target,
        "program": files["program.mlir"],
        "locations": files["program.mlir"].with_name("locations.json"),
        "vmfb": vmfb,
        "weights": files["weights.irpa"],
        "inputs": files["inputs.npz"],
        "signature": files["signature.json"],
        "device": case.device,
        "threads": case.threads,
    }
    request = StageRequest("scripts.stages.profile_iree", str(python), plain(fields))
    ended = subject.run("profile", folder, request, [report])
    if ended.status != outcome.OK:
        raise NoProfile(f"the profile of {trial.version} failed: {ended.detail}")
    return atomic.read_json(report)["dispatches"]
