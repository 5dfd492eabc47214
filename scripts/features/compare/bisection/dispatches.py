"""The dispatches that became slower between two releases, from the profiles of both (iree-profile)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import atomic
from scripts.features.compare.bisection.trial import LOG, Limits, Subject, Trial
from scripts.iree import tools
from scripts.supervise import outcome, supervise
from scripts.supervise.job import Job

PROFILER = "iree-profile"
MOST = 10
"""Operations that are listed."""
REPORT = "profile.json"


class NoProfile(Exception):
    """A release whose dispatches cannot be timed. Says why."""


@dataclass(frozen=True)
class Moved:
    """An operation of the captured graph at the root of dispatches, and the milliseconds of these dispatches per call, before and after.
    `functions`: the dispatches of both releases."""

    what: str
    before_ms: float
    after_ms: float
    functions: tuple[str, ...]


def between(subject: Subject, before: Trial, after: Trial, limits: Limits) -> list[Moved]:
    """Return the operations whose dispatches differ most in time between two releases. Raises NoProfile."""
    return moved(*(_profile(subject, one, limits) for one in (before, after)))


def moved(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[Moved]:
    """Return the operations whose dispatches differ most in time, those that became slower first.

    Releases name and fuse dispatches differently, so they are matched by the operation that each of them computes at its root.
    """
    times: dict[str, list[float]] = {}
    functions: dict[str, dict[str, None]] = {}
    for side, dispatches in enumerate((before, after)):
        for one in dispatches:
            what = _root(one)
            times.setdefault(what, [0.0, 0.0])[side] += one["ms"]
            functions.setdefault(what, {})[one["function"]] = None
    found = [Moved(what, ms[0], ms[1], tuple(functions[what])) for what, ms in times.items()]
    return sorted(found, key=lambda one: one.before_ms - one.after_ms)[:MOST]


def _root(dispatch: Mapping[str, Any]) -> str:
    """The operation at the root of a dispatch, with its module; the name of the dispatch if that is not known."""
    if not dispatch["nodes"]:
        return dispatch["function"]
    node, operator, module = dispatch["nodes"][0]
    return f"{operator} ({module or node})"


def _profile(subject: Subject, of: Trial, limits: Limits) -> list[dict[str, Any]]:
    """The dispatches of a release with their times. Raises NoProfile."""
    version = of.candidate.version
    if of.python is None or of.vmfb is None or not subject.case.threads:
        raise NoProfile(f"the module of {version} was not run on a CPU")
    if tools.program(PROFILER, of.python.parent.parent) is None:
        raise NoProfile(f"IREE {version} has no {PROFILER}")
    job = _job(subject, of, limits)
    ended = supervise.run(job)
    if ended.status != outcome.OK:
        raise NoProfile(f"the profile of {version} failed: {ended.detail}")
    return atomic.read_json(job.artifacts[0])["dispatches"]


def _job(subject: Subject, of: Trial, limits: Limits) -> Job:
    assert of.vmfb is not None  # _profile has looked
    case, folder = subject.case, of.vmfb.parent / "profile"
    files = case.files
    options: dict[str, Path | str | int | None] = {
        "--program": files["program"],
        "--locations": files["program"].with_name("locations.json"),
        "--vmfb": of.vmfb,
        "--weights": files["weights.irpa"],
        "--inputs": files["inputs.npz"],
        "--signature": files["signature.json"],
        "--device": case.device,
        "--threads": case.threads,
        "--out": folder / REPORT,
    }
    words = [str(word) for pair in options.items() for word in pair]
    return Job(
        stage="profile",
        cell=case.cell,
        status_path=folder / outcome.STATUS,
        log_path=folder / LOG,
        command=[str(of.python), "-m", "scripts.stages.profile_iree", *words, *subject.target],
        timeout_s=limits.verify_s,
        memory_mb=limits.memory_mb,
        artifacts=[folder / REPORT],
    )


def markdown(found: Sequence[Moved], before: str, after: str) -> str:
    """The table of an issue; `before` and `after` are versions."""
    rows = "\n".join(
        f"| {one.what} | {one.before_ms:.3g} | {one.after_ms:.3g} | {', '.join(f'`{name}`' for name in one.functions)} |"
        for one in found
    )
    return f"| operation | ms with {before} | ms with {after} | dispatches |\n| --- | ---: | ---: | --- |\n{rows}"
