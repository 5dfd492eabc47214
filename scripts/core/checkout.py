"""Where the files of a run are.

- The code is in ROOT: Snakefile, workflow/, scripts/, models/, envs/ and config.yaml. It is a checkout, or what a wheel
  has installed (INSTALLED), where nothing is written.
- results/ and .snakemake/ are in the working folder, to which paths that a user gives are relative.
- The environments of the stages are in .venvs/ of the checkout or in `shared_environments`.

A run in the checkout's own folder uses relative paths such as `envs/iree.yaml`. A run in another
folder (`--directory`, or a Snakefile that imports this workflow) uses absolute paths, and its
commands set the path of this project's Python modules.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from scripts.core import exits

ROOT = Path(__file__).parents[2]
INSTALLED = (ROOT.parent.name, ROOT.name) == ("vmfbench", "_workflow")
"""Whether this is the code of an installed wheel (scripts/cli/launcher)."""
ENVIRONMENTS = "VMFBENCH_ENVS"
"""Environment variable with the folder for the environments of the stages."""


def is_here() -> bool:
    """Whether the working folder is the folder of the checkout."""
    return os.path.samefile(os.curdir, ROOT)


def commit(folder: Path) -> str:
    """Return the commit of the repository of a folder, with `-dirty` if its files differ from it; "" if it is not known."""
    return _git(folder, "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*").strip()


def changed_files(folder: Path) -> list[Path]:
    """The tracked files of the repository of a folder that differ from its commit."""
    root = _git(folder, "rev-parse", "--show-toplevel").strip()
    names = _git(folder, "diff", "--name-only", "--no-renames", "-z", "HEAD").split("\0")
    return [Path(root, name).resolve() for name in names if name]


def _git(folder: Path, *words: str) -> str:
    """What git says in a folder; "" if it cannot."""
    # Without its locks, git does not disturb another git in the checkout.
    quiet = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True, env=quiet)  # fmt: skip
    except (OSError, subprocess.SubprocessError):  # no git, or no repository
        return ""
    return done.stdout


def path(file: str) -> str:
    """The path of a file or folder of the checkout, as used in the working folder."""
    return file if is_here() else str(ROOT / file)


def shared_environments() -> Path | None:
    """The folder for environments that all checkouts and versions of vmfbench may use: that of ENVIRONMENTS, else, of an
    installed wheel, one in the user's cache. None of a checkout, which has its own in .venvs/."""
    if named := os.environ.get(ENVIRONMENTS):
        return Path(named).expanduser().absolute()
    if not INSTALLED:
        return None
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "vmfbench", "envs")


def refuse_installed(verb: str) -> None:
    """Exit with a message if a verb that writes files of the project is run from an installed wheel."""
    if INSTALLED:
        exits.fail(
            f"`{verb}` writes into a clone, but {ROOT} is an installed wheel: run it in a clone"
        )


def run_command(targets: str, config: str = "", options: str = "") -> str:
    """Return the command that makes `targets`, as a message tells it to the user. `config`: the words after `--config`;
    `options`: further ones of Snakemake."""
    made = "" if targets == "results/latency.csv" else f" --make {targets}"
    configured = f" --config {config}" if config else ""
    return f"vmfbench run{made}{configured}" + (f" -- {options}" if options else "")


def prefix() -> list[str]:
    """The words that go before `python -m scripts.…` to run it in the working folder.

    Python then imports modules from the checkout and the user's PYTHONPATH, and not from the
    working folder, which may have its own folder `scripts` or `models`.
    """
    return [] if is_here() else ["env", *map("=".join, variables().items())]


def variables() -> dict[str, str]:
    """Environment variables by which a process imports this project's modules, in whatever folder it runs."""
    places = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, places))),
        "PYTHONSAFEPATH": "1",
    }
