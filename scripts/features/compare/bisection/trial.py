"""A trial: what a release of IREE does with a cell."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.core import atomic
from scripts.features.compare.bisection import environment
from scripts.features.compare.bisection.candidates import Candidate
from scripts.features.reproduce.case import COMPILE, VERIFY, Case
from scripts.matrix import stages
from scripts.matrix.stage import VERIFICATION
from scripts.supervise import outcome, supervise
from scripts.supervise.job import Job
from scripts.supervise.outcome import Outcome

LOG = "log.txt"


class NoTrial(Exception):
    """A cell that cannot be tried with another release. Says why."""


@dataclass(frozen=True)
class Limits:
    """Seconds of a compilation and of a verification, and MiB of either."""

    compile_s: float
    verify_s: float
    memory_mb: float


@dataclass(frozen=True)
class Subject:
    """What is tried: a cell with its program, and the options of its target for scripts.stages.compile_iree. `verified`: the words of the
    command that verified the cell; () if it is only to be compiled. `timed`: environments are kept until the end, because modules
    are timed with the tools of their releases."""

    case: Case
    target: Sequence[str]
    verified: Sequence[str] = ()
    timed: bool = False


@dataclass(frozen=True)
class Trial:
    """What a release did. `outcome`: of the compilation if that failed, else of the verification if there was one. `vmfb`: the module;
    None if there is none. `said`: the version of the compiler with its commit. `report`: what is known of the module; where it was timed, with its `latency_ms`. `log`: of the
    stage that ended it. `python`: of its environment, if that was kept."""

    candidate: Candidate
    outcome: Outcome
    log: Path
    said: str = ""
    vmfb: Path | None = None
    report: dict[str, Any] = field(default_factory=dict)
    python: Path | None = None

    @property
    def bytes(self) -> int | None:
        """The size of the module; None if there is none."""
        return self.report.get("vmfb_bytes")

    @property
    def words(self) -> str:
        """How it ended, in a few words."""
        if self.outcome.status == outcome.OK:
            size = f"{self.bytes:,} bytes" if self.bytes else ""
            ms = self.report.get("latency_ms")
            return ", ".join(filter(None, ("ok", size, f"{ms:.3g} ms" if ms else "")))
        return f"{self.outcome.status} ({self.outcome.reason})"


def of_record(
    case: Case, experiment: Mapping[str, Any], root: Path, runs: bool, timed: bool = False
) -> Subject:
    """Return what is tried of a cell; `runs`: it is verified too. `root`: the folder that has results/. Raises NoTrial."""
    target = [
        *("--backend", experiment["backend"], f"--arch={experiment['arch'] or ''}"),
        *("--opt-level", experiment["opt_level"], "--flags", json.dumps(list(experiment["flags"]))),
    ]
    if not runs:
        return Subject(case, target)
    status = root / stages.status_path(VERIFY, case.cell)
    words = shlex.split(outcome.read_or_damaged(status).command)
    if "scripts.stages.verify_iree" not in words:
        raise NoTrial(
            f"{status}: the cell was never verified here, so there is no command to repeat; run it first "
            "(snakemake --cores 8 results/latency.csv)"
        )
    options = words[words.index("scripts.stages.verify_iree") + 1 :]
    # The command was recorded with paths relative to its folder.
    found = [str(root / one) if (root / one).is_file() else one for one in options]
    return Subject(case, target, found, timed)


def run(subject: Subject, candidate: Candidate, folder: Path, limits: Limits) -> Trial:
    """Try a release: make its environment, compile, and verify if the subject says so.

    The log, the module and the verification stay in `folder`, and the environment if modules are timed.
    """
    folder.mkdir(parents=True)
    env = folder / "env"
    try:
        python = environment.make(candidate, env)
        said = environment.commit(env)
        made = _in_environment(subject, candidate, folder, limits, (python, said))
    except environment.CannotInstall as error:
        log = folder / LOG
        log.write_text(f"{error}\n", encoding="utf-8")
        why = _first_line(str(error))
        failed = Outcome("error", "env", subject.case.cell, "installer", why)
        made = Trial(candidate, failed, log)
    if not subject.timed:
        shutil.rmtree(env, ignore_errors=True)
    # Logs go into an issue, and these paths are gone then.
    program = subject.case.files["program"]
    _shorten(made.log, {str(program): program.name, f"{folder}/": ""})
    return made


def _in_environment(
    subject: Subject, candidate: Candidate, folder: Path, limits: Limits, made: tuple[Path, str]
) -> Trial:
    python, said = made
    job = _compilation(subject, candidate, python, folder, limits)
    ended = supervise.run(job)
    if ended.status != outcome.OK:
        return Trial(candidate, ended, job.log_path, said)
    vmfb, report = job.artifacts
    if subject.verified:
        job = _verification(subject, python, folder, limits)
        ended = supervise.run(job)
    kept = python if subject.timed else None
    return Trial(candidate, ended, job.log_path, said, vmfb, atomic.read_json(report), kept)


def _compilation(
    subject: Subject, candidate: Candidate, python: Path, folder: Path, limits: Limits
) -> Job:
    vmfb, report = folder / "module.vmfb", folder / "report.json"
    program = subject.case.files["program"]
    return Job(
        stage=COMPILE,
        cell=subject.case.cell,
        status_path=folder / outcome.STATUS,
        log_path=folder / LOG,
        command=[
            *(str(python), "-m", "scripts.stages.compile_iree", "--program", str(program)),
            # The flags are then written as this release calls them, and an error says if it cannot
            # parse the program, which the pinned release has written.
            *(*subject.target, "--toolchain", candidate.version),
            *("--out-vmfb", str(vmfb), "--out-report", str(report)),
        ],
        timeout_s=limits.compile_s,
        memory_mb=limits.memory_mb,
        artifacts=[vmfb, report],
    )


def _verification(subject: Subject, python: Path, folder: Path, limits: Limits) -> Job:
    below = folder / VERIFY
    out = below / VERIFICATION
    words = {
        "--vmfb": str(folder / "module.vmfb"),
        "--raw-inputs": str(below / "inputs"),
        "--out": str(out),
    }
    return Job(
        stage=VERIFY,
        cell=subject.case.cell,
        status_path=below / outcome.STATUS,
        log_path=below / LOG,
        command=[
            str(python),
            "-m",
            "scripts.stages.verify_iree",
            *replaced(subject.verified, words),
        ],
        timeout_s=limits.verify_s,
        memory_mb=limits.memory_mb,
        artifacts=[out],
    )


def replaced(words: Sequence[str], options: Mapping[str, str]) -> list[str]:
    """Return the words of a command with other values of options. An option may have had several values."""
    found: list[str] = []
    skipping = False
    for word in words:
        if word.startswith("--"):
            skipping = word in options
            found += [word, options[word]] if skipping else [word]
        elif not skipping:
            found.append(word)
    return found


def _shorten(log: Path, paths: Mapping[str, str]) -> None:
    """Replace paths in a log."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    for path, instead in paths.items():
        text = text.replace(path, instead)
    log.write_text(text, encoding="utf-8")


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")
