"""The environments of the stages: their Python, their pins and the contents of their locks."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path

import yaml

from scripts.core import checkout
from scripts.core.checkout import ROOT
from scripts.matrix import env_files, feature, toolchains
from scripts.matrix.toolchains import Toolchain
from scripts.run import locks

MARK = "made_of.txt"
"""File in an environment with its `pins_digest`, written when the environment is complete."""


def env_file(env: str) -> Path:
    """The one file that pins an environment."""
    return ROOT / "envs" / f"{env}.yaml"


def prefix(env: str) -> str:
    """Return the folder of an environment that uv makes, next to the Snakefile, for all runs."""
    return checkout.path(f".venvs/{env}")


def packages_file(env: str) -> str:
    """Return the path of an environment's package list, which is an input of the run's jobs.

    It is in the environment, or in the run's folder if runs in other folders share the environment.
    """
    return (
        f"{prefix(env)}/versions.json" if checkout.is_here() else f"results/env/{env}/versions.json"
    )


def whole(folder: Path) -> str:
    """Return the `pins_digest` of the environment in a folder, or "" if it is not complete."""
    if (folder / MARK).is_file():
        return (folder / MARK).read_text(encoding="utf-8").strip()
    mark = ROOT / made_of(folder.name)  # an older version made it
    listed = folder / "versions.json"
    if listed.is_file() and listed.stat().st_size and mark.is_file():
        return mark.read_text(encoding="utf-8").strip()
    return ""


@functools.cache
def pins_digest(env: str) -> str:
    """A hash (12 hex digits) of the dependencies of an environment and the versions in its lock, without
    comments and hashes of files."""
    loaded = yaml.safe_load(env_file(env).read_text(encoding="utf-8"))
    lock = locks.lock_file(env_file(env))
    held = locks.versions(lock) if lock.is_file() else []
    return hashlib.sha256(repr((loaded["dependencies"], held)).encode()).hexdigest()[:12]


def made_of(env: str) -> str:
    """The file with the `pins_digest` from which the environment was made."""
    return f"results/env/{env}/pins.txt"


@functools.cache
def pins(env: str) -> dict[str, str]:
    """Package to version, for every exact pin of an environment."""
    exact = (r for r in env_files.declared(env_file(env)).requirements if "==" in r)
    return dict(requirement.split("==", 1) for requirement in exact)


class Environments:
    """Answers questions about the environments of a run, by name: those of envs/. That of a toolchain,
    `iree@iree-3.12`, has the file and lock of `iree`."""

    def file(self, env: str) -> str:
        """The file that pins an environment, as used in the working folder."""
        return checkout.path(f"{env_files.FOLDER}/{toolchains.base(env)}.yaml")

    def lock_files(self, env: str) -> list[str]:
        """The lock beside that file, as an input of the rule that makes the environment. The list is empty if there is
        no lock; scripts.stages.make_env reports that."""
        path = locks.lock_file(env_file(toolchains.base(env)))
        return [checkout.path(str(path.relative_to(ROOT)))] if path.is_file() else []

    def option(self, env: str) -> str:
        """A further option of scripts.stages.make_env for an environment."""
        return ""

    def pins_digest(self, env: str) -> str:
        """A value that changes when what the environment is made of changes."""
        return pins_digest(env)

    def is_of_pins(self, env: str) -> bool:
        """Whether the environment was made of what it would be made of now."""
        mark = Path(made_of(env))
        return mark.is_file() and mark.read_text("utf-8").strip() == self.pins_digest(env)

    def is_gone(self, env: str) -> bool:
        """Whether a run in another folder finds the environment missing or made of something else."""
        return not checkout.is_here() and whole(Path(prefix(env))) != self.pins_digest(env)

    def notes(self) -> list[str]:
        """Messages for the start of a run."""
        return []

    def pins(self, env: str) -> dict[str, str]:
        """Package to version, for every exact pin of an environment."""
        return pins(env)


def of_run(selected: Mapping[str, Toolchain]) -> Environments:
    """The environments of a run with these toolchains: by the feature that makes them, if there is one."""
    makers = [
        declared.environments for declared in feature.LOADED.values() if declared.environments
    ]
    return makers[0](selected) if makers else Environments()
