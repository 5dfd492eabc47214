"""The releases of IREE that a bisection chooses from, and temporary environments of them, made by uv."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from scripts.iree import tools
from scripts.matrix import env_files
from scripts.matrix.env_files import COMPILER, RUNTIME
from scripts.matrix.stages import IREE_ENV
from scripts.run import environments, installing


class NoCandidates(Exception):
    """Versions or wheels that cannot be bisected. Says what was found, and what is needed."""


class CannotInstall(Exception):
    """uv could not make an environment. Has its message."""


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


def of_wheels(
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


def make(candidate: Candidate, folder: Path) -> tuple[Path, str]:
    """Make the environment envs/iree.yaml with another release in `folder`; return its interpreter, and what its
    compiler says about its version, with its commit ("" if nothing). Raises CannotInstall."""
    declared = env_files.declared(environments.env_file(IREE_ENV))
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
