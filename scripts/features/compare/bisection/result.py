"""The result of a bisection: both sides as reproducers, all trials, and the text of an issue."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import Version

from scripts.core import atomic
from scripts.features.compare.bisection.search import Boundary
from scripts.features.compare.bisection.trial import Trial
from scripts.features.reproduce import issue, writing
from scripts.features.reproduce.case import COMPILE, Case
from scripts.iree.backends import renamed

REPORT, ISSUE = "bisection.json", "ISSUE.md"


@dataclass(frozen=True)
class Result:
    """`asked`: the value of --if. `trials`: those that were made. `before` and `after`: the last release
    like the good end and the first one like the bad end, in the order from the good end to the bad one. `between`: releases between these two that are neither."""

    case: Case
    asked: str
    trials: Sequence[Trial]
    before: Trial
    after: Trial
    between: tuple[str, ...]

    @property
    def is_improvement(self) -> bool:
        """Whether the good end is the newer one."""
        return Version(self.before.candidate.version) > Version(self.after.candidate.version)

    @property
    def first(self) -> Trial:
        """The trial of the first release, in time, of the new behaviour."""
        return self.before if self.is_improvement else self.after

    @property
    def last(self) -> Trial:
        """The trial of the last release, in time, of the old behaviour."""
        return self.after if self.is_improvement else self.before

    @property
    def sentence(self) -> str:
        """What was found, in one sentence."""
        kind = "good" if self.is_improvement else "bad"
        text = (
            f"{self.case.cell}: {self.first.candidate.version} is the first {kind} release: {self.first.words}"
            f" ({self.last.candidate.version}: {self.last.words})"
        )
        if not self.between:
            return text
        return f"{text}. Between the two, {', '.join(self.between)} could not be judged"


def of(case: Case, asked: str, boundary: Boundary, versions: Sequence[str], trials: dict[int, Trial]) -> Result:  # fmt: skip
    """Return the result of a search over `versions`, with the trials by their number."""
    return Result(
        case,
        asked,
        [trials[number] for number in sorted(trials)],
        trials[boundary.last_good],
        trials[boundary.first_bad],
        tuple(versions[number] for number in boundary.between),
    )


def write(result: Result, folder: Path, dispatches: str = "") -> None:
    """Write the result into a folder, which is emptied first. `dispatches`: what is said of them in the issue."""
    shutil.rmtree(folder, ignore_errors=True)
    for trial in (result.before, result.after):
        below = folder / trial.candidate.version
        writing.write(side(result.case, trial), below, with_weights=False)
        (below / ISSUE).unlink()  # the one issue is about both sides
    atomic.write_json(folder / REPORT, to_json(result))
    commands = (folder / result.after.candidate.version / "run.sh").read_text(encoding="utf-8")
    text = issue_text(result, commands.partition("set -x\n")[2].strip(), dispatches)
    (folder / ISSUE).write_text(text, encoding="utf-8")


def side(case: Case, trial: Trial) -> Case:
    """Return the case of one side: how this release ended, with its version."""
    ended = trial.outcome
    return dataclasses.replace(
        case,
        stage=ended.stage if ended.stage != "env" else COMPILE,
        status=ended.status,
        reason=ended.reason,
        detail=ended.detail,
        log=trial.log,
        flags=tuple(renamed(case.flags, trial.candidate.version)),
        latency_ms=None,
        versions={**case.versions, "iree": trial.candidate.version},
    )


def to_json(result: Result) -> dict[str, Any]:
    """Return the result as JSON."""
    return {
        "cell": result.case.cell,
        "if": result.asked,
        "good": result.before.candidate.version,
        "bad": result.after.candidate.version,
        "first": result.first.candidate.version,
        "between": list(result.between),
        "trials": [_trial(one) for one in _by_version(result.trials)],
    }


def _trial(of_release: Trial) -> dict[str, Any]:
    ended = of_release.outcome
    return {
        "version": of_release.candidate.version,
        "compiler": of_release.said,
        "status": ended.status,
        "stage": ended.stage,
        "reason": ended.reason,
        "detail": ended.detail,
        "vmfb_bytes": of_release.bytes,
        "dispatch_count": of_release.report.get("dispatch_count"),
        "compile_s": of_release.report.get("compile_s"),
        "latency_ms": of_release.report.get("latency_ms"),
    }


def issue_text(result: Result, steps: str, dispatches: str = "") -> str:
    """Return the text of an issue about the change. `steps`: the commands that show the bad side."""
    case, after, first, last = result.case, result.after, result.first, result.last
    log = after.log.read_text(encoding="utf-8", errors="replace") if after.log.is_file() else ""
    said = issue.clipped(log, after.outcome.detail)
    shown = f"\n```text\n{said}\n```\n" if after.outcome.status != "ok" else ""
    if dispatches:
        shown = f"\n{dispatches}\n"
    return f"""\
<!-- Tracker: {issue.TRACKER} -->

# {_title(result)}

### What happened?

A program that {case.exporter} exported (input dialect: {case.dialect}), with the same flags:

| IREE | result |
| --- | --- |
{_rows(result)}

{first.candidate.version} is the first release of the new behaviour, {last.candidate.version} the last one of the old{_between(result)}:

- {last.said or last.candidate.version}
- {first.said or first.candidate.version}
{shown}
### Steps to reproduce your issue

`{after.candidate.version}/run.sh` (bad) and `{result.before.candidate.version}/run.sh` (good) in the attached folder do this with the wheels of the two releases:

```sh
{steps}
```

### Additional context

Cell `{case.cell}` of vmfbench; found by bisecting releases.
"""


def _title(result: Result) -> str:
    what = f"{'no longer ' if result.is_improvement else ''}{result.asked}"
    detail = result.after.outcome.detail.partition(" [program.mlir")[0] or result.case.cell
    return f"[since {result.first.candidate.version}: {what}] {detail[:120]}"


def _rows(result: Result) -> str:
    return "\n".join(
        f"| {one.candidate.version} | {one.words} |" for one in _by_version(result.trials)
    )


def _by_version(trials: Sequence[Trial]) -> list[Trial]:
    return sorted(trials, key=lambda one: Version(one.candidate.version))


def _between(result: Result) -> str:
    return f" ({', '.join(result.between)} could not be judged)" if result.between else ""
