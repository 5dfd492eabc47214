"""A trial of a bisection: a release of IREE to choose from, a temporary environment of it, made by uv, and what it does with a cell."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from scripts.core import atomic
from scripts.core.requests import StageRequest
from scripts.features.reproduce import case as cases
from scripts.features.reproduce.case import COMPILE, VERIFY, Case
from scripts.iree import tools
from scripts.matrix.stages import IREE_ENV, VERIFICATION
from scripts.records import at_hand, results_file
from scripts.run import environments, installing, resources
from scripts.run.environments import COMPILER, RUNTIME
from scripts.supervise import outcome, supervise
from scripts.supervise.job import Job
from scripts.supervise.outcome import Outcome
from scripts.torch_model.errors import first_line


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
    done = _uv(
        *("pip", "compile", "-", "--no-deps", "--no-header", "--no-annotate", "--quiet"),
        *("--prerelease", allowed),
        given=requirement,
    )
    if done.returncode == 0:
        return Version(done.stdout.strip().partition("==")[2])
    if "No solution found" in done.stderr:
        return None
    raise NoCandidates(f"uv cannot resolve {requirement}: {done.stderr.strip()}")


def make_environment(candidate: Candidate, folder: Path) -> tuple[Path, str]:
    """Make the environment envs/iree.yaml with another release in `folder`; return its interpreter, and what its
    compiler says about its version, with its commit ("" if nothing). Raises CannotInstall."""
    declared = environments.declared(environments.env_file(IREE_ENV))
    others = [
        requirement
        for requirement in declared.requirements
        if not requirement.startswith((COMPILER, RUNTIME))
    ]
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


def _uv(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [installing.uv(), *words]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False)


LOG, MODULE = "log.txt", "module.vmfb"
DISPATCHES, PASSES = "dispatches", "passes"


@dataclass(frozen=True)
class Subject:
    """What is tried: a cell with its program, and the fields of its target in a request to scripts.stages.compile_iree.
    `timeout_s` and `memory_mb`: limits of each stage. `verified`: the fields of the request that
    verified the cell; {} if it is only to be compiled. `compilations`: of each release; the one that took the least CPU time
    counts, because other work on the machine only adds to it. `account`: what an issue explains the change by, DISPATCHES,
    PASSES or ""; environments are then kept until the end, because that is measured with the tools of both releases."""

    case: Case
    target: Mapping[str, Any]
    timeout_s: float
    memory_mb: float
    verified: Mapping[str, Any]
    compilations: int = 1
    account: str = ""

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
    def bytes(self) -> int | None:
        """The size of the module; None if there is none."""
        return self.report.get("vmfb_bytes")

    @property
    def words(self) -> str:
        """The outcome, in a few words."""
        if self.is_ok:
            size = f"{self.bytes:,} bytes" if self.bytes else ""
            cpu_s, ms = (self.report.get(key) for key in ("cpu_s", "latency_ms"))
            compiled = f"compiled in {cpu_s:.3g} CPU s" if cpu_s else ""
            return ", ".join(filter(None, ("ok", size, compiled, f"{ms:.3g} ms" if ms else "")))
        return f"{self.outcome.status} ({self.outcome.reason})"

    @property
    def ended(self) -> str:
        """The outcome, with the message of a failure."""
        return f"{self.words}: {self.outcome.detail[:200]}" if self.outcome.detail else self.words


def subject(
    results: Path, cell: str, timeout_s: float, runs: bool, compilations: int = 1, account: str = ""
) -> Subject:
    """Return what is tried of a cell in a folder of results; `runs`: it is verified too. Raises BadRecords and
    NoCase."""
    record = cases.named(results_file.read(results / "results.jsonl"), cell)
    at_hand.check(results, [record.data])
    root = results.absolute().parent
    case, experiment = cases.case_of(root, record), record.data["experiment"]
    target = {
        "backend": experiment["backend"],
        "arch": experiment["arch"] or "",
        "opt_level": experiment["opt_level"],
        "flags": list(experiment["flags"]),
    }
    fields = cases.recorded(root, VERIFY, case.cell).request.fields if runs else {}
    # It was recorded with paths relative to its folder.
    verified = {
        name: str(root / value) if isinstance(value, str) and (root / value).is_file() else value
        for name, value in fields.items()
    }
    if "exported" in verified:
        verified["exported"] = [str(root / file) for file in verified["exported"]]
    memory_mb = resources.memory_limit_mb({})
    return Subject(case, target, timeout_s, memory_mb, verified, compilations, account)


def run(subject: Subject, candidate: Candidate, folder: Path) -> Trial:
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
    if not subject.account:
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
    for _ in range(subject.compilations):
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
    kept = python if subject.account else None
    return Trial(candidate, ended, log, said, vmfb, least, kept)
