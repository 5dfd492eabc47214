"""A trial: what a release of IREE does with a cell."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.core import atomic
from scripts.features.compare.bisection import candidates
from scripts.features.compare.bisection.candidates import Candidate
from scripts.features.reproduce import case as cases
from scripts.features.reproduce.case import COMPILE, VERIFY, Case
from scripts.matrix.stage import VERIFICATION
from scripts.records import results_file
from scripts.run import resources
from scripts.supervise import outcome, supervise
from scripts.supervise.job import Job
from scripts.supervise.outcome import Outcome

LOG, MODULE = "log.txt", "module.vmfb"
DISPATCHES, PASSES = "dispatches", "passes"


@dataclass(frozen=True)
class Subject:
    """What is tried: a cell with its program, and the options of its target for scripts.stages.compile_iree.
    `timeout_s` and `memory_mb`: limits of each stage. `verified`: the values of each option of the command that
    verified the cell; {} if it is only to be compiled. `compilations`: of each release; the one that took the least CPU time
    counts, because other work on the machine only adds to it. `account`: what an issue explains the change by, DISPATCHES,
    PASSES or ""; environments are then kept until the end, because that is measured with the tools of both releases."""

    case: Case
    target: Sequence[str]
    timeout_s: float
    memory_mb: float
    verified: Mapping[str, Sequence[str]]
    compilations: int = 1
    account: str = ""

    def run(
        self, stage: str, folder: Path, command: Sequence[Any], artifacts: Sequence[Path]
    ) -> Outcome:
        """Run the command of a stage, with its status and log in `folder`."""
        return supervise.run(
            Job(
                stage=stage,
                cell=self.case.cell,
                status_path=folder / outcome.STATUS,
                log_path=folder / LOG,
                command=[*map(str, command)],
                timeout_s=self.timeout_s,
                memory_mb=self.memory_mb,
                artifacts=artifacts,
            )
        )


@dataclass(frozen=True)
class Trial:
    """What a release did. `outcome`: of the compilation if that failed, else of the verification if there was one.
    `vmfb`: the module; None if there is none. `said`: the version of the compiler with its commit. `report`: what is
    known of the module; where it was timed, with its `latency_ms`. `log`: of the stage that ended it. `python`: of
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
        """How it ended, in a few words."""
        if self.is_ok:
            size = f"{self.bytes:,} bytes" if self.bytes else ""
            cpu_s, ms = (self.report.get(key) for key in ("cpu_s", "latency_ms"))
            compiled = f"compiled in {cpu_s:.3g} CPU s" if cpu_s else ""
            return ", ".join(filter(None, ("ok", size, compiled, f"{ms:.3g} ms" if ms else "")))
        return f"{self.outcome.status} ({self.outcome.reason})"

    @property
    def ended(self) -> str:
        """How it ended, with the message of a failure."""
        return f"{self.words}: {self.outcome.detail[:200]}" if self.outcome.detail else self.words


def subject(
    results: Path, cell: str, timeout_s: float, runs: bool, compilations: int = 1, account: str = ""
) -> Subject:
    """Return what is tried of a cell in a folder of results; `runs`: it is verified too. Raises BadRecords and
    NoCase."""
    record = cases.named(results_file.read(results / "results.jsonl"), cell)
    root = results.absolute().parent
    case, experiment = cases.case_of(root, record), record.data["experiment"]
    target = [
        *("--backend", experiment["backend"], f"--arch={experiment['arch'] or ''}"),
        *("--opt-level", experiment["opt_level"], "--flags", json.dumps(list(experiment["flags"]))),
    ]
    command = cases.recorded(root, VERIFY, case.cell).options if runs else {}
    # It was recorded with paths relative to its folder.
    verified = {
        option: [str(root / value) if (root / value).is_file() else value for value in values]
        for option, values in command.items()
    }
    memory_mb = resources.memory_limit_mb({})
    return Subject(case, target, timeout_s, memory_mb, verified, compilations, account)


def run(subject: Subject, candidate: Candidate, folder: Path) -> Trial:
    """Try a release: make its environment, compile, and verify if the subject says so.

    The log, the module and the verification stay in `folder`, and the environment if an issue needs it.
    """
    folder.mkdir(parents=True)
    env, log = folder / "env", folder / LOG
    try:
        python, said = candidates.make(candidate, env)
        trial = _in_environment(subject, candidate, folder, python, said)
    except candidates.CannotInstall as error:
        log.write_text(f"{error}\n", encoding="utf-8")
        why = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
        failed = Outcome("error", "env", subject.case.cell, "installer", why)
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
    command = [
        *(python, "-m", "scripts.stages.compile_iree"),
        *("--program", subject.case.files["program.mlir"], *subject.target),
        # The flags are then written as this release calls them, and an error says if it cannot
        # parse the program, which the pinned release has written.
        *("--toolchain", candidate.version, "--out-vmfb", vmfb, "--out-report", report),
    ]
    reports = []
    for _ in range(subject.compilations):
        ended = subject.run(COMPILE, folder, command, [vmfb, report])
        if ended.status != outcome.OK:
            return Trial(candidate, ended, log, said)
        reports.append(atomic.read_json(report))
    least = min(reports, key=lambda report: report.get("cpu_s") or 0.0)
    if subject.verified:
        below = folder / VERIFY
        log, out = below / LOG, below / VERIFICATION
        changed = {"--vmfb": [vmfb], "--raw-inputs": [below / "inputs"], "--out": [out]}
        options = {**subject.verified, **changed}
        words = [word for option, values in options.items() for word in (option, *values)]
        command = [python, "-m", "scripts.stages.verify_iree", *words]
        ended = subject.run(VERIFY, below, command, [out])
    kept = python if subject.account else None
    return Trial(candidate, ended, log, said, vmfb, least, kept)
