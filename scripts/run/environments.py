"""The environments of the stages: the files of envs/ that pin their packages, their locks, and where they are.

A lock has every package, its version and the hashes of its files. `envs/<env>.lock` is a requirements file of pip's that uv makes from `envs/<env>.yaml`
(scripts/cli/lock.py) for every system and for the pinned Python and later ones. uv installs it as it is. Under conda, Snakemake runs
`envs/<env>.post-deploy.sh` in the environment that it made, and that script installs it with pip.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from scripts.config import feature
from scripts.config.cell import EntryName, Toolchain
from scripts.core import checkout
from scripts.core.checkout import ROOT
from scripts.supervise.environment_damage import ENVIRONMENT_MARK

ENV_FOLDER = "envs"
COMPILER, RUNTIME, TORCH_MLIR = "iree-base-compiler", "iree-base-runtime", "torch-mlir"
PACKAGES = {"iree": (COMPILER, RUNTIME), "torch-mlir": (TORCH_MLIR,)}
"""The packages of each project that a toolchain may replace."""


class EnvironmentFileError(ValueError):
    """An environment file from which uv and conda cannot both make an environment."""


@dataclass(frozen=True)
class Declared:
    """The contents of an environment file: the version of Python, and pip's requirements."""

    python: str
    requirements: tuple[str, ...]


def declared(path: Path) -> Declared:
    """Read an environment file. Raises EnvironmentFileError."""
    dependencies = yaml.safe_load(path.read_text(encoding="utf-8"))["dependencies"]
    pythons = [d for d in dependencies if isinstance(d, str) and d.startswith("python=")]
    pips = [d["pip"] for d in dependencies if isinstance(d, dict) and "pip" in d]
    if len(pythons) != 1 or len(pips) != 1:
        raise EnvironmentFileError(
            f"{path}: expected one `python=` and one `pip:` among the dependencies"
        )
    return Declared(pythons[0].removeprefix("python="), tuple(pips[0]))


def package_name(requirement: str) -> str:
    """The normalized name (PEP 503) of the package of a requirement: `a-b` of `A_b[x]==1.0`."""
    name = re.split(r"[\s\[=<>!~@;]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


LOCK_VERB = "vmfbench lock"
"""The command that makes locks, for messages and for the header of a lock."""


LOCKED_PYTHONS = ("3.11", "3.12", "3.13", "3.14")
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


def read_lock(path: Path) -> dict[str, set[str]]:
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
                f"`{LOCK_VERB}` makes the file"
            )
        held.setdefault(package_name(line), set()).add(match["version"])
    return held


def with_lock_pythons(lock: str, pythons: Iterable[str]) -> str:
    """The text of a lock of uv's with the versions of Python for which its packages have wheels."""
    lines = lock.splitlines(keepends=True)
    at = next((i for i, line in enumerate(lines) if line[0] != "#"), len(lines))
    return "".join([*lines[:at], f"{_HEAD}{', '.join(pythons)}\n", *lines[at:]])


def lock_pythons(lock: Path, pinned: str) -> tuple[str, ...]:
    """The versions of Python that an environment may have: the pinned one, then the others that its lock names, the
    nearest first."""
    lines = lock.read_text(encoding="utf-8").splitlines() if lock.is_file() else []
    named = next((line[len(_HEAD) :].split(", ") for line in lines if line.startswith(_HEAD)), [])
    others = [python for python in named if _minor(python) != _minor(pinned)]
    return pinned, *sorted(others, key=lambda python: abs(_minor(python) - _minor(pinned)))


def lock_for_python(lock: str, python: str) -> str:
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


def locked_versions(path: Path) -> list[str]:
    """The lines of a lock without hashes and comments: they change only when a version changes."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.rstrip(" \\") for line in lines if "==" in line and line[0] not in "# "]


def lock_disagreements(requirements: Iterable[str], held: Mapping[str, set[str]]) -> list[str]:
    """The pinned requirements that a lock does not contain in that version, so that it has to be updated. `held`:
    `read`."""
    problems = []
    for requirement in requirements:
        versions = held.get(package_name(requirement), set())
        if versions != {requirement.partition("==")[2]}:
            there = " and ".join(sorted(versions)) or "nothing"
            problems.append(f"{requirement} is pinned, the lock holds {there} of it")
    return problems


def deploy_script(env: str, lock: bytes) -> str:
    """The script that Snakemake runs in an environment made by conda, in the folder of the Snakefile.

    Snakemake makes an environment again when its file or this script changes. The script contains
    the digest of the lock, so it changes with the lock.
    """
    return (
        f"# Made by `{LOCK_VERB}`. Snakemake runs it in the environment that conda made of {env}.yaml.\n"
        f"# envs/{env}.lock has sha256 {hashlib.sha256(lock).hexdigest()}.\n"
        f"python -m pip install --no-deps --require-hashes --force-reinstall -r envs/{env}.lock\n"
    )


def env_file(env: str) -> Path:
    """The one file that pins an environment."""
    return ROOT / "envs" / f"{env}.yaml"


def prefix(env: str) -> str:
    """Return the folder of an environment that uv makes, for all runs: next to the Snakefile, or in a shared folder.

    There its pins are in its path, so that a version of vmfbench with other pins does not replace it.
    """
    if shared := checkout.shared_environments():
        return str(shared / pins_digest(EntryName.read(env).entry) / env)
    return checkout.path(f".venvs/{env}")


def are_shared() -> bool:
    """Whether runs in other folders use the same environments."""
    return not checkout.is_here() or checkout.shared_environments() is not None


def packages_file(env: str) -> str:
    """Return the path of an environment's package list, which is an input of the run's jobs.

    It is in the environment, or in the run's folder if runs in other folders share the environment.
    """
    return f"results/env/{env}/versions.json" if are_shared() else f"{prefix(env)}/versions.json"


def whole(folder: Path) -> str:
    """Return the `pins_digest` of the environment in a folder, or "" if it is not complete."""
    mark = folder / ENVIRONMENT_MARK
    return mark.read_text(encoding="utf-8").strip() if mark.is_file() else ""


@functools.cache
def pins_digest(env: str) -> str:
    """A hash (12 hex digits) of the dependencies of an environment and the versions in its lock, without
    comments and hashes of files."""
    loaded = yaml.safe_load(env_file(env).read_text(encoding="utf-8"))
    lock = lock_file(env_file(env))
    held = locked_versions(lock) if lock.is_file() else []
    return hashlib.sha256(repr((loaded["dependencies"], held)).encode()).hexdigest()[:12]


def made_of(env: str) -> str:
    """The file with the `pins_digest` from which the environment was made."""
    return f"results/env/{env}/pins.txt"


@functools.cache
def pins(env: str) -> dict[str, str]:
    """Package to version, for every exact pin of an environment."""
    exact = (r for r in declared(env_file(env)).requirements if "==" in r)
    return dict(requirement.split("==", 1) for requirement in exact)


class Environments:
    """Answers questions about the environments of a run, by name: those of envs/. That of a toolchain,
    `iree@iree-3.12`, has the file and lock of `iree`."""

    def file(self, env: str) -> str:
        """The file that pins an environment, as used in the working folder."""
        return checkout.path(f"{ENV_FOLDER}/{EntryName.read(env).entry}.yaml")

    def lock_files(self, env: str) -> list[str]:
        """The lock beside that file, as an input of the rule that makes the environment. The list is empty if there is
        no lock; scripts.stages.make_env reports that."""
        path = lock_file(env_file(EntryName.read(env).entry))
        return [checkout.path(str(path.relative_to(ROOT)))] if path.is_file() else []

    def option(self, env: str) -> str:
        """A further field of a request to scripts.stages.make_env, as an option of the supervisor."""
        return ""

    def pins_digest(self, env: str) -> str:
        """A value that changes when what the environment is made of changes."""
        return pins_digest(env)

    def is_of_pins(self, env: str) -> bool:
        """Whether the environment was made of what it would be made of now."""
        mark = Path(made_of(env))
        return mark.is_file() and mark.read_text("utf-8").strip() == self.pins_digest(env)

    def is_gone(self, env: str) -> bool:
        """Whether a run finds an environment that runs in other folders use missing or made of something else."""
        return are_shared() and whole(Path(prefix(env))) != self.pins_digest(env)

    def pins(self, env: str) -> dict[str, str]:
        """Package to version, for every exact pin of an environment."""
        return pins(env)


def of_run(selected: Mapping[str, Toolchain]) -> Environments:
    """The environments of a run with these toolchains: by the feature that makes them, if there is one."""
    makers = [
        declared.environments for declared in feature.LOADED.values() if declared.environments
    ]
    return makers[0](selected) if makers else Environments()
