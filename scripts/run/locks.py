"""The locks of the environments: every package, its version and the hashes of its files.

`envs/<env>.lock` is a requirements file of pip's that uv makes from `envs/<env>.yaml`
(scripts/command/lock.py). uv installs it as it is. Under conda, Snakemake runs
`envs/<env>.post-deploy.sh` in the environment that it made, and that script installs it with pip.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

REFRESH = "vmfbench lock"
"""The command that makes locks, for messages and for the header of a lock."""


class LockError(ValueError):
    """A file that is not a lock, or a lock that does not match its environment. The message says what to do."""


@dataclass(frozen=True)
class Package:
    """A package of a lock, with its normalized name (PEP 503)."""

    name: str
    version: str
    hashes: tuple[str, ...]


# As uv writes them: `name==1.0 ; marker \` and a line `    --hash=sha256:<64 hex digits>` each.
_PACKAGE = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(\[[\w,-]+\])?==(?P<version>[^\s;]+)"
    r"(\s*;[^\\]*?)?(?P<rest>(\s+--hash=sha256:[0-9a-f]{64})*)\s*"
)


def lock_file(env_file: Path) -> Path:
    """The lock that belongs to an environment file."""
    return env_file.with_suffix(".lock")


def script_file(env_file: Path) -> Path:
    """The script of an environment file that Snakemake runs in an environment made by conda."""
    return env_file.with_suffix(".post-deploy.sh")


def read(path: Path) -> list[Package]:
    """The packages of a lock, in order. Raises LockError for a line that is not a package with hashes."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    found = []
    for line in text.splitlines():
        line = line.partition(" #")[0].strip()
        if not line or line.startswith("#"):
            continue
        match = _PACKAGE.fullmatch(line)
        hashes = re.findall(r"sha256:[0-9a-f]{64}", match["rest"]) if match else []
        if match is None or not hashes:
            raise LockError(
                f"{path}: found {line[:80]!r}, expected a package with its version and hashes; "
                f"`{REFRESH}` makes the file"
            )
        found.append(Package(_plain(match["name"]), match["version"], tuple(hashes)))
    return found


def versions(path: Path) -> list[str]:
    """The lines of a lock without hashes and comments: they change only when a version changes."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.rstrip(" \\") for line in lines if "==" in line and line[0] not in "# "]


def disagreements(requirements: Iterable[str], packages: Iterable[Package]) -> list[str]:
    """The pinned requirements that a lock does not contain in that version, so that it has to be updated."""
    held: dict[str, set[str]] = {}
    for package in packages:
        held.setdefault(package.name, set()).add(package.version)
    problems = []
    for requirement in requirements:
        name, _, version = re.sub(r"\[.*?\]", "", requirement).partition("==")
        versions = held.get(_plain(name), set())
        if versions != {version}:
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


def _plain(name: str) -> str:
    """The normalized name of a package (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
