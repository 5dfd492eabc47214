"""The releases of IREE that a bisection chooses from: versions in the package index, or wheels."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from scripts.features.toolchains.build_trees import COMPILER, RUNTIME
from scripts.run import installing


class NoCandidates(Exception):
    """Versions or wheels that cannot be bisected. Says what was found, and what is needed."""


@dataclass(frozen=True)
class Candidate:
    """A release of IREE: its version, and what uv installs of each of its packages (`==3.12.0`, or `@ file:///…`)."""

    version: str
    packages: tuple[str, ...]


def of_index(good: str, bad: str, prereleases: bool = False) -> list[Candidate]:
    """Return the releases from `good` to `bad` in the package indexes that uv is configured for, in this order.

    `good` may be the newer one. Raises NoCandidates.
    """
    low, high = sorted((_version(good), _version(bad)))
    if low == high:
        raise NoCandidates(f"--good and --bad are both {good}; give two versions")
    found: list[Version] = []
    wanted = f"{COMPILER}>={low},<={high}"
    # `<3.12.0` would also exclude 3.12.0rc1 (PEP 440).
    while (version := _newest(wanted, prereleases)) is not None:
        found.append(version)
        wanted += f",!={version}"
    for end in (low, high):
        if end not in found:
            known = ", ".join(map(str, reversed(found))) or "none"
            raise NoCandidates(f"{COMPILER} {end} is not in the package index for this Python; between the two ends there are {known}")  # fmt: skip
    order = sorted(found, reverse=_version(good) > _version(bad))
    return [
        Candidate(str(one), (f"{COMPILER}=={one}", f"{RUNTIME}=={one}")) for one in order
    ]  # fmt: skip


def of_wheels(
    wheels: Sequence[Path], good: str | None, bad: str | None, runs: bool = False
) -> list[Candidate]:
    """Return the releases that wheels of the compiler (and the runtime) make up, from `good` to `bad`.

    By default these are the oldest and the newest version. `runs`: modules are run too. Raises NoCandidates.
    """
    found: dict[Version, dict[str, Path]] = {}
    for path in wheels:
        if not path.is_file():
            raise NoCandidates(f"{path}: no such file")
        try:
            name, version, _, _ = parse_wheel_filename(path.name)
        except InvalidWheelFilename as error:
            raise NoCandidates(f"{path}: {error}") from error
        if name not in (COMPILER, RUNTIME):
            raise NoCandidates(f"{path}: a wheel of {name}; expected {COMPILER} or {RUNTIME}")
        found.setdefault(version, {})[name] = path
    lacking = [str(version) for version, of in found.items() if COMPILER not in of]
    if lacking:
        raise NoCandidates(f"{', '.join(lacking)}: a wheel of {RUNTIME}, and none of {COMPILER}")
    lacking = [str(version) for version, of in found.items() if runs and RUNTIME not in of]
    if lacking:
        raise NoCandidates(f"{', '.join(lacking)}: no wheel of {RUNTIME}, which runs the modules")
    if len(found) < 2:
        raise NoCandidates("a bisection needs wheels of at least two versions")
    ends = [_version(good) if good else min(found), _version(bad) if bad else max(found)]
    for end in ends:
        if end not in found:
            raise NoCandidates(f"there is no wheel of {end}, but of {', '.join(map(str, found))}")
    low, high = sorted(ends)
    order = sorted((v for v in found if low <= v <= high), reverse=ends[0] > ends[1])
    return [
        Candidate(str(v), tuple(f"{name} @ {path.absolute().as_uri()}" for name, path in sorted(found[v].items())))
        for v in order
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
    done = subprocess.run(
        [
            *(installing.uv(), "pip", "compile", "-", "--no-deps", "--no-header", "--no-annotate"),
            *("--quiet", "--prerelease", "allow" if prereleases else "disallow"),
        ],
        input=requirement,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return Version(done.stdout.strip().partition("==")[2])
    if "No solution found" in done.stderr:
        return None
    raise NoCandidates(f"uv cannot resolve {requirement}: {done.stderr.strip()}")
