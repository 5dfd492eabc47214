"""A temporary environment of a release of IREE, made by uv."""

from __future__ import annotations

import subprocess
from pathlib import Path

from scripts.features.compare.bisection.candidates import Candidate
from scripts.features.toolchains.build_trees import COMPILER, RUNTIME
from scripts.iree import tools
from scripts.matrix import env_files
from scripts.matrix.stage import IREE_ENV
from scripts.run import environments, installing


class CannotInstall(Exception):
    """uv could not make an environment. Has its message."""


def make(candidate: Candidate, folder: Path) -> Path:
    """Make the environment envs/iree.yaml with another release in `folder`; return its interpreter. Raises CannotInstall."""
    declared = env_files.declared(environments.env_file(IREE_ENV))
    others = [one for one in declared.requirements if not one.startswith((COMPILER, RUNTIME))]
    python = folder / "bin" / "python"
    _uv("venv", "--quiet", "--python", declared.python, str(folder))
    _uv("pip", "install", "--quiet", "--python", str(python), *candidate.packages, *others)
    return python


def commit(folder: Path) -> str:
    """Return what the compiler of an environment says about its version, with its commit; "" if it says nothing."""
    compiler = tools.program("iree-compile", folder)
    said = tools.version(compiler) if compiler else ""
    return next((line.strip() for line in said.splitlines() if "IREE compiler version" in line), "")


def _uv(*words: str) -> None:
    done = subprocess.run([installing.uv(), *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotInstall(done.stderr.strip())
