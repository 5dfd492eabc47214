"""IREE's command-line tools, found in this environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from scripts.lib.core import exits

_PROGRAMS = ("iree/compiler/_mlir_libs", "iree/_runtime_libs")
"""Folders below site-packages in which the wheels install their programs."""


def tool(name: str) -> str:
    """Return the path of a tool in this environment, or else on PATH. Exits if there is none."""
    beside = Path(sysconfig.get_path("scripts")) / name
    found = program(name, Path(sys.prefix)) or beside
    if found.exists():
        return str(found)
    on_path = shutil.which(name)
    if on_path is None:
        exits.fail(f"{name} is neither in the folder of {sys.executable} nor on PATH")
    return on_path


def program(name: str, environment: Path) -> Path | None:
    """Return the program of a tool in an environment, or None if the wheels did not install it.

    The wheels also install Python scripts with these names. The scripts start the program as a
    child process and turn a signal into an exit code (248 for SIGFPE), so a crash would look like
    an ordinary failure.
    """
    for site in environment.glob("lib/python*/site-packages"):
        for folder in _PROGRAMS:
            if (site / folder / name).is_file():
                return site / folder / name
    return None


def version(compiler: Path) -> str:
    """Return what iree-compile says about its version, with its commit, or "" if it cannot be run."""
    try:
        said = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return said.stdout.strip()
