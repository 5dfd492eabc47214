"""The locks of the environments: every package, its version and the hashes of its files.

`envs/<env>.lock` is a requirements file of pip's that uv makes from `envs/<env>.yaml`
(scripts/command/lock.py) for every system and for the pinned Python and later ones. uv installs it as it is. Under conda, Snakemake runs
`envs/<env>.post-deploy.sh` in the environment that it made, and that script installs it with pip.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from scripts.matrix import env_files

REFRESH = "vmfbench lock"
"""The command that makes locks, for messages and for the header of a lock."""


PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""The versions of Python for which locks are tried."""
_HEAD = "# Pythons: "
"""The line of a lock with the versions of Python for which its packages have wheels."""


class LockError(ValueError):
    """A file that is not a lock, or a lock that does not match its environment. The message says what to do."""


# As uv writes them: `name==1.0 ; marker \` and a line `    --hash=sha256:<64 hex digits>` each.
_PACKAGE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[\w,-]+\])?==(?P<version>[^\s;]+)"
    r"(\s*;[^\\]*?)?(\s+--hash=sha256:[0-9a-f]{64})+\s*"
)


def lock_file(env_file: Path) -> Path:
    """The lock that belongs to an environment file."""
    return env_file.with_suffix(".lock")


def script_file(env_file: Path) -> Path:
    """The script of an environment file that Snakemake runs in an environment made by conda."""
    return env_file.with_suffix(".post-deploy.sh")


def read(path: Path) -> dict[str, set[str]]:
    """The versions of each package of a lock, by its normalized name; systems may have different ones. Raises LockError
    for a line that is not a package with hashes."""
    held: dict[str, set[str]] = {}
    for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        line = line.partition(" #")[0].strip()
        if not line or line.startswith("#"):
            continue
        match = _PACKAGE.fullmatch(line)
        if match is None:
            raise LockError(
                f"{path}: found {line[:80]!r}, expected a package with its version and hashes; "
                f"`{REFRESH}` makes the file"
            )
        held.setdefault(env_files.package(line), set()).add(match["version"])
    return held


def with_pythons(lock: str, pythons: Iterable[str]) -> str:
    """The text of a lock of uv's with the versions of Python for which its packages have wheels."""
    lines = lock.splitlines(keepends=True)
    at = next((i for i, line in enumerate(lines) if line[0] != "#"), len(lines))
    return "".join([*lines[:at], f"{_HEAD}{', '.join(pythons)}\n", *lines[at:]])


def pythons(lock: Path, pinned: str) -> tuple[str, ...]:
    """The versions of Python that an environment may have: the pinned one, then the others that its lock names, the
    nearest first."""
    lines = lock.read_text(encoding="utf-8").splitlines() if lock.is_file() else []
    named = next((line[len(_HEAD) :].split(", ") for line in lines if line.startswith(_HEAD)), [])
    others = [python for python in named if _minor(python) != _minor(pinned)]
    return pinned, *sorted(others, key=lambda python: abs(_minor(python) - _minor(pinned)))


def for_python(lock: str, python: str) -> str:
    """The packages of the text of a lock that a version of Python gets on this system, with their hashes."""
    from packaging.markers import Marker  # environments of stages import this module, and lack it

    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    kept = []
    for entry in re.split(r"\n(?=[^\s#])", lock):
        if entry.startswith("#"):
            continue
        package, *hashes = entry.split(" \\\n")
        name, _, marker = package.partition(" ; ")
        if not marker or Marker(marker).evaluate(environment):
            kept.append(" \\\n".join([name, *hashes]).rstrip() + "\n")
    return "".join(kept)


def _minor(python: str) -> int:
    return int(python.split(".")[1])


def versions(path: Path) -> list[str]:
    """The lines of a lock without hashes and comments: they change only when a version changes."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.rstrip(" \\") for line in lines if "==" in line and line[0] not in "# "]


def disagreements(requirements: Iterable[str], held: Mapping[str, set[str]]) -> list[str]:
    """The pinned requirements that a lock does not contain in that version, so that it has to be updated. `held`:
    `read`."""
    problems = []
    for requirement in requirements:
        versions = held.get(env_files.package(requirement), set())
        if versions != {requirement.partition("==")[2]}:
            there = " and ".join(sorted(versions)) or "nothing"
            problems.append(f"{requirement} is pinned, the lock holds {there} of it")
    return problems


def script(env: str, lock: bytes) -> str:
    """The script that Snakemake runs in an environment made by conda, in the folder of the Snakefile.

    Snakemake makes an environment again when its file or this script changes. The script contains
    the digest of the lock, so it changes with the lock.
    """
    return (
        f"# Made by `{REFRESH}`. Snakemake runs it in the environment that conda made of {env}.yaml.\n"
        f"# envs/{env}.lock has sha256 {hashlib.sha256(lock).hexdigest()}.\n"
        f"python -m pip install --no-deps --require-hashes --force-reinstall -r envs/{env}.lock\n"
    )
