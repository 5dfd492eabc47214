"""A bisection: the releases of IREE to choose from, what each does with a cell in a temporary environment of uv, and the issue about
the first one that does it in another way."""

from __future__ import annotations

import dataclasses
import enum
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from scripts.config.stages import IREE_ENV, VERIFICATION
from scripts.core import atomic
from scripts.core.requests import StageRequest, plain
from scripts.frontends.torch_model.errors import first_line
from scripts.iree import shell, tools
from scripts.iree.backends import renamed
from scripts.results import at_hand, results_file, wording
from scripts.run import environments, installing, resources
from scripts.run.environments import COMPILER, RUNTIME
from scripts.run.recorded import recorded
from scripts.supervise import outcome, supervise
from scripts.supervise.job import Job
from scripts.supervise.outcome import Outcome
from scripts.tools.compare import code_changes
from scripts.tools.compare.store import seconds_by_pass
from scripts.tools.profile.profile_files import NoProfile
from scripts.tools.reproduce import bundling, issue
from scripts.tools.reproduce import case as cases
from scripts.tools.reproduce.case import COMPILE, VERIFY, Case

LOG, MODULE = "log.txt", "module.vmfb"
REPORT = "bisection.json"
DISPATCHES, PASSES = "dispatches", "passes"
PROFILER = "iree-profile"
MOST = 10
"""Operations and passes that are listed."""


class NoCandidates(Exception):
    """Versions or wheels that cannot be bisected. Says what was found, and what is needed."""


class CannotInstall(Exception):
    """uv could not make an environment. Has its message."""


@dataclass(frozen=True)
class Candidate:
    """A release of IREE: its version, and what uv installs of each of its packages (`==3.12.0`, or `@ file:///…`)."""

    version: str
    packages: tuple[str, ...]


def releases_of_index(good: str, bad: str, prereleases: bool = False) -> list[Candidate]:
    """Return the releases from `good` to `bad` in the package indexes that uv is configured for, in this order.

    `good` may be the newer one. Raises NoCandidates.
    """
    low, high = sorted((_version(good), _version(bad)))
    if low == high:
        raise NoCandidates(f"--good and --bad are both {good}; give two versions")
    known: list[Version] = []
    wanted = f"{COMPILER}>={low},<={high}"
    # `<3.12.0` would also exclude 3.12.0rc1 (PEP 440).
    while (version := _newest(wanted, prereleases)) is not None:
        known.append(version)
        wanted += f",!={version}"
    for end in (low, high):
        if end not in known:
            between = ", ".join(map(str, reversed(known))) or "none"
            raise NoCandidates(
                f"{COMPILER} {end} is not in the package index for this Python; "
                f"between the two ends there are {between}"
            )
    known.sort(reverse=_version(good) > _version(bad))
    return [Candidate(str(v), (f"{COMPILER}=={v}", f"{RUNTIME}=={v}")) for v in known]


def releases_of_wheels(
    wheels: Sequence[Path], good: str | None, bad: str | None, runs: bool = False
) -> list[Candidate]:
    """Return the releases that wheels of the compiler (and the runtime) make up, from `good` to `bad`.

    By default these are the oldest and the newest version. `runs`: modules are run too. Raises NoCandidates.
    """
    known: dict[Version, dict[str, Path]] = {}
    for path in wheels:
        if not path.is_file():
            raise NoCandidates(f"{path}: no such file")
        try:
            name, version, _, _ = parse_wheel_filename(path.name)
        except InvalidWheelFilename as error:
            raise NoCandidates(f"{path}: {error}") from error
        if name not in (COMPILER, RUNTIME):
            raise NoCandidates(f"{path}: a wheel of {name}; expected {COMPILER} or {RUNTIME}")
        known.setdefault(version, {})[name] = path
    if lacking := ", ".join(str(v) for v in known if COMPILER not in known[v]):
        raise NoCandidates(f"{lacking}: a wheel of {RUNTIME}, and none of {COMPILER}")
    if runs and (lacking := ", ".join(str(v) for v in known if RUNTIME not in known[v])):
        raise NoCandidates(f"{lacking}: no wheel of {RUNTIME}, which runs the modules")
    if len(known) < 2:
        raise NoCandidates("a bisection needs wheels of at least two versions")
    ends = [_version(good) if good else min(known), _version(bad) if bad else max(known)]
    for end in ends:
        if end not in known:
            raise NoCandidates(f"there is no wheel of {end}, but of {', '.join(map(str, known))}")
    chosen = (v for v in known if min(ends) <= v <= max(ends))
    return [
        Candidate(str(v), tuple(f"{name} @ {path.absolute().as_uri()}" for name, path in sorted(known[v].items())))
        for v in sorted(chosen, reverse=ends[0] > ends[1])
    ]  # fmt: skip


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion as error:
        raise NoCandidates(f"{text!r} is not a version, such as 3.12.0") from error


def _newest(requirement: str, prereleases: bool) -> Version | None:
    """Return the newest version that meets a requirement, as uv resolves it; None if there is none.

    uv has no command that lists versions. Raises NoCandidates if it cannot ask an index.
    """
    allowed = "allow" if prereleases else "disallow"
    options = ("--no-deps", "--no-header", "--no-annotate", "--quiet", "--prerelease", allowed)
    done = _uv("pip", "compile", "-", *options, stdin=requirement)
    if done.returncode == 0:
        return Version(done.stdout.strip().partition("==")[2])
    if "No solution found" in done.stderr:
        return None
    raise NoCandidates(f"uv cannot resolve {requirement}: {done.stderr.strip()}")


def make_environment(candidate: Candidate, folder: Path) -> tuple[Path, str]:
    """Make the environment envs/iree.yaml with another release in `folder`; return its interpreter, and what its
    compiler says about its version, with its commit ("" if nothing). Raises CannotInstall."""
    declared = environments.declared(environments.env_file(IREE_ENV))
    others = [r for r in declared.requirements if not r.startswith((COMPILER, RUNTIME))]
    python = folder / "bin" / "python"
    for words in (
        ("venv", "--quiet", "--python", declared.python, str(folder)),
        ("pip", "install", "--quiet", "--python", str(python), *candidate.packages, *others),
    ):
        done = _uv(*words)
        if done.returncode != 0:
            raise CannotInstall(done.stderr.strip())
    lines = tools.said(folder).get("iree-compile", "").splitlines()
    return python, next((line.strip() for line in lines if "IREE compiler version" in line), "")


def _uv(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [installing.uv(), *words]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


class Side(enum.StrEnum):
    """What a release is: like the good end, like the bad end, or neither."""

    GOOD = "good"
    BAD = "bad"
    NEITHER = "neither"


@dataclass(frozen=True)
class Question:
    """`name`: the value of --if. `side`: what a trial is (the last argument), given the trials of both ends. `wanted`: what the ends
    must be. `runs`: modules are verified, and not only compiled. `timed`: they are also timed in turns. `compilations`: of each
    release; the one that took the least CPU time counts, because other work on the machine only adds to it. `account`: what an
    issue explains the change by, DISPATCHES, PASSES or ""; environments are then kept until the end, because that is measured with
    the tools of both releases."""

    name: str
    side: Callable[[Trial, Trial, Trial], Side]
    wanted: str
    runs: bool = False
    timed: bool = False
    compilations: int = 1
    account: str = ""


@dataclass(frozen=True)
class Subject:
    """What is tried: a cell with its program, and the fields of its target in a request to scripts.stages.compile_iree.
    `timeout_s` and `memory_mb`: limits of each stage. `verified`: the fields of the request that
    verified the cell; {} if it is only to be compiled."""

    question: Question
    case: Case
    target: Mapping[str, Any]
    timeout_s: float
    memory_mb: float
    verified: Mapping[str, Any]

    def run(
        self, stage: str, folder: Path, request: StageRequest, artifacts: Sequence[Path]
    ) -> Outcome:
        """Run a stage, with its request, status and log in `folder`."""
        return supervise.run(
            Job(
                stage=stage,
                cell=self.case.cell,
                status_path=folder / outcome.STATUS,
                log_path=folder / LOG,
                command=request.command(folder),
                request=request,
                timeout_s=self.timeout_s,
                memory_mb=self.memory_mb,
                artifacts=artifacts,
            )
        )


@dataclass(frozen=True)
class Trial:
    """What a release did. `outcome`: of the compilation if that failed, else of the verification if there was one.
    `vmfb`: the module; None if there is none. `said`: the version of the compiler with its commit. `report`: the facts
    of the module; where it was timed, with its `latency_ms`. `log`: of the stage that ended it. `python`: of
    its environment, if that was kept."""

    candidate: Candidate
    outcome: Outcome
    log: Path
    said: str = ""
    vmfb: Path | None = None
    report: dict[str, Any] = field(default_factory=dict)
    python: Path | None = None

    @property
    def version(self) -> str:
        return self.candidate.version

    @property
    def is_ok(self) -> bool:
        return self.outcome.status == outcome.OK

    @property
    def words(self) -> str:
        """The outcome, in a few words."""
        if not self.is_ok:
            return f"{self.outcome.status} ({self.outcome.reason})"
        forms = {
            "vmfb_bytes": "{:,} bytes",
            "cpu_s": "compiled in {:.3g} CPU s",
            "latency_ms": "{:.3g} ms",
            "static_spills": "{:,} bytes spilled",
            "static_matrix_share": "{:.0%} of products on matrix units",
        }
        values = [form.format(v) for key, form in forms.items() if (v := self.report.get(key))]
        return ", ".join(["ok", *values])

    @property
    def ended(self) -> str:
        """The outcome, with the message of a failure."""
        return f"{self.words}: {self.outcome.detail[:200]}" if self.outcome.detail else self.words


def subject(results: Path, cell: str, timeout_s: float, question: Question) -> Subject:
    """Return what is tried of a cell in a folder of results. Raises BadRecords and NoCase."""
    record = cases.named(results_file.read(results / "results.jsonl"), cell)
    at_hand.check(results, [record.data])
    root = results.absolute().parent
    case, experiment = cases.case_of(root, record), record.data["experiment"]
    target = {name: experiment[name] for name in ("backend", "opt_level", "flags")}
    target["arch"] = experiment["arch"] or ""
    fields = recorded(root, VERIFY, case.cell).request.fields if question.runs else {}
    # It was recorded with paths relative to its folder.
    verified = {
        name: str(root / value) if isinstance(value, str) and (root / value).is_file() else value
        for name, value in fields.items()
    }
    if "exported" in verified:
        verified["exported"] = [str(root / file) for file in verified["exported"]]
    memory_mb = resources.memory_limit_mb({})
    return Subject(question, case, target, timeout_s, memory_mb, verified)


def try_release(subject: Subject, candidate: Candidate, folder: Path) -> Trial:
    """Try a release: make its environment, compile, and verify if the subject says so.

    The log, the module and the verification stay in `folder`, and the environment if an issue needs it.
    """
    folder.mkdir(parents=True)
    env, log = folder / "env", folder / LOG
    try:
        python, said = make_environment(candidate, env)
        trial = _in_environment(subject, candidate, folder, python, said)
    except CannotInstall as error:
        log.write_text(f"{error}\n", encoding="utf-8")
        failed = Outcome("error", "env", subject.case.cell, "installer", first_line(error))
        trial = Trial(candidate, failed, log)
    if not subject.question.account:
        shutil.rmtree(env, ignore_errors=True)
    # Logs go into an issue, and these paths are gone then.
    text = trial.log.read_text(encoding="utf-8", errors="replace") if trial.log.is_file() else ""
    program = subject.case.files["program.mlir"]
    text = text.replace(str(program), program.name).replace(f"{folder}/", "")
    trial.log.write_text(text, encoding="utf-8")
    return trial


def _in_environment(
    subject: Subject, candidate: Candidate, folder: Path, python: Path, said: str
) -> Trial:
    vmfb, report, log = folder / MODULE, folder / "report.json", folder / LOG
    fields = {
        "program": str(subject.case.files["program.mlir"]),
        **subject.target,
        # The flags are then written as this release calls them, and an error says if it cannot
        # parse the program, which the pinned release has written.
        "toolchain": candidate.version,
    }
    request = StageRequest("scripts.stages.compile_iree", str(python), fields)
    reports = []
    for _ in range(subject.question.compilations):
        ended = subject.run(COMPILE, folder, request, [vmfb, report])
        if ended.status != outcome.OK:
            return Trial(candidate, ended, log, said)
        reports.append(atomic.read_json(report))
    least = min(reports, key=lambda report: report.get("cpu_s") or 0.0)
    if subject.verified:
        below = folder / VERIFY
        log, out = below / LOG, below / VERIFICATION
        fields = {**subject.verified, "vmfb": [str(vmfb)]}
        request = StageRequest("scripts.stages.verify_iree", str(python), fields)
        ended = subject.run(VERIFY, below, request, [out])
    kept = python if subject.question.account else None
    return Trial(candidate, ended, log, said, vmfb, least, kept)


# What is left of a bisection.


@dataclass(frozen=True)
class Result:
    """`trials`: those that were made. `before` and `after`: the last release like the
    good end and the first one like the bad end, in the order from the good end to the bad one. `between`: releases
    between these two that are neither."""

    subject: Subject
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
        """All trials, the oldest release first."""
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
        "if": result.subject.question.name,
        "good": result.before.version,
        "bad": result.after.version,
        "first": result.in_time[1].version,
        "between": list(result.between),
        "trials": [
            {
                "version": trial.version,
                "compiler": trial.said,
                **{key: getattr(trial.outcome, key) for key in ("status", "stage", "reason", "detail")},
                **{key: trial.report.get(key) for key in ("vmfb_bytes", "dispatch_count", "compile_s", "cpu_s", "latency_ms", "static_spills", "static_matrix_share")},
            }
            for trial in result.by_version
        ],
    }  # fmt: skip
    atomic.write_json(folder / REPORT, report)
    program = bundle / bundling.PROGRAM
    own = result.subject.case.files[program.name]
    is_same = program.is_file() and program.read_bytes() == own.read_bytes()
    _write_issue(result, folder, bundling.described_reduction(bundle) if is_same else "")


def _side(case: Case, trial: Trial) -> Case:
    """The case of one side: the outcome of this release, with its version."""
    ended = trial.outcome
    return dataclasses.replace(
        case,
        ended=dataclasses.replace(ended, stage=COMPILE) if ended.stage == "env" else ended,
        log=trial.log,
        flags=tuple(renamed(case.flags, trial.version)),
        latency=None,
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
        f"{wording.table(('IREE', 'result'), tried)}\n"
        f"{first.version} is the first release of the new behaviour, {last.version} the last one of the old{between}:\n\n"
        f"- {last.said or last.version}\n- {first.said or first.version}"
    )
    if account := ACCOUNTS.get(result.subject.question.account):
        happened += f"\n\n{account(result)}"
    elif not after.is_ok:
        log = after.log.read_text(encoding="utf-8", errors="replace") if after.log.is_file() else ""
        happened += f"\n\n{issue.fenced('text', issue.clipped(log, after.outcome.detail))}"
    if reduced:
        happened += f"\n\n{reduced}"
    what = f"{'no longer ' if result.is_improvement else ''}{result.subject.question.name}"
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
        (what, f"{before_ms:.3g}", f"{after_ms:.3g}", ", ".join(map(wording.code, functions)))
        for what, before_ms, after_ms, functions in changes
    ]
    head = ("operation", f"ms with {before.version}", f"ms with {after.version}", "dispatches")
    return wording.table(head, rows, (1, 2)).strip()


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
    table = wording.table(head, rows, (1, 2, 3)).strip()
    return f"Seconds of iree-compile on one thread, measured once:\n\n{table}"


def _compilation(subject: Subject, trial: Trial) -> dict[str, float]:
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
    request = StageRequest("scripts.tools.profile.profile_compile", str(python), plain(fields))
    ended = subject.run("compile time", folder, request, [report])
    if ended.status != outcome.OK:
        raise NoProfile(f"the compilation of {trial.version} was not profiled: {ended.detail}")
    if seconds := seconds_by_pass(report):
        return seconds
    raise NoProfile(f"{trial.version}: {atomic.read_json(report)['program']['detail']}")


ACCOUNTS = {DISPATCHES: _dispatches, PASSES: _passes}
"""What an issue explains a change by, by Subject.account."""


def moved(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> list[tuple[str, float, float, list[str]]]:
    """Return the operations whose dispatches differ most in time, those that became slower first: the name, milliseconds per call
    before and after, and the dispatches of both.

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
    changes = [(what, ms[0], ms[1], [*functions[what]]) for what, ms in times.items()]
    return sorted(changes, key=lambda change: change[1] - change[2])[:MOST]


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
    request = StageRequest("scripts.tools.profile.profile_iree", str(python), plain(fields))
    ended = subject.run("profile", folder, request, [report])
    if ended.status != outcome.OK:
        raise NoProfile(f"the profile of {trial.version} failed: {ended.detail}")
    return atomic.read_json(report)["dispatches"]
