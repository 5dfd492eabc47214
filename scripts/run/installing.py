"""Makes environments with uv from locks."""

from __future__ import annotations

import contextlib
import fcntl
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from scripts.core import atomic, exits, process
from scripts.matrix import env_files
from scripts.run import indexes, locks

REASON = "installer"
"""The reason of a stage that could not make an environment (supervise/diagnose.py)."""


@contextlib.contextmanager
def alone(prefix: Path) -> Iterator[bool]:
    """Take the lock of the environment; yield whether another process had to be waited for.

    Runs in several folders share the environment.
    """
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with (prefix.parent / f".{prefix.name}.lock").open("w") as lock:
        waited = False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting: another run is making {prefix}", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
            waited = True
        yield waited


def uv() -> str:
    """The path of uv, for which pip's package indexes are taken over. Exits with a message if there is no uv.

    Only the driver's environment has uv, and this module is also imported in others.
    """
    try:
        from uv import find_uv_bin

        found = find_uv_bin()
    except (ImportError, FileNotFoundError):
        exits.fail(
            f"{sys.executable} has no uv, which makes the environments; "
            f"`{sys.executable} -m pip install -r requirements.txt` installs it",
            reason=REASON,
        )
    indexes.take_over()
    return found


def install(prefix: Path, python: str, packages: Sequence[str]) -> None:
    """Make the environment from scratch."""
    made = process.run_tool([uv(), "venv", "--clear", "--quiet", "--python", python, str(prefix)])
    if made.returncode > 0:
        check_python(python)
    if made.returncode != 0:
        process.exit_like(made.returncode)
    interpreter = prefix / "bin" / "python"
    # Importing torch without bytecode takes two to three times as long, in every process. If
    # PYTHONDONTWRITEBYTECODE is set or the folder is read-only, no process would write bytecode.
    run([uv(), "pip", "install", "--compile-bytecode", "--python", str(interpreter), *packages])


def check_python(version: str) -> None:
    """Exit with a message if this machine does not have a Python of this version."""
    command = [uv(), "python", "find", "--system", version]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        exits.fail(
            f"there is no Python {version} on this machine, and uv could not download it; install Python "
            f"{version} so that it is on PATH, or set UV_PYTHON_INSTALL_MIRROR to a mirror of uv's downloads",
            reason=REASON,
        )


def installed(prefix: Path) -> dict[str, str]:
    """Return the environment's package versions, from the list of its run if there is one."""
    there = prefix / "versions.json"
    if there.is_file() and there.stat().st_size:
        return atomic.read_json(there)
    python = str(prefix / "bin" / "python")
    listed = subprocess.run(
        [uv(), "pip", "list", "--format", "json", "--python", python],
        check=True,
        capture_output=True,
        text=True,
    )
    return {package["name"]: package["version"] for package in json.loads(listed.stdout)}


def what_to_install(env_file: Path) -> tuple[str, list[str]]:
    """The version of Python of an environment, and its packages as arguments of `uv pip install`.

    The packages are those of the lock, with hashes. Without a lock they are the pins of the file,
    and a line on the log says so. Raises LockError if the lock does not match the pins.
    """
    declared = env_files.declared(env_file)
    lock = locks.lock_file(env_file)
    if not lock.is_file():
        print(
            f"{lock}: not found; packages that {env_file} does not pin are installed in their newest "
            f"version. `{locks.REFRESH}` makes it."
        )
        return declared.python, list(declared.requirements)
    if problems := locks.disagreements(declared.requirements, locks.read(lock)):
        raise locks.LockError(
            f"{lock} is not of {env_file}: {'; '.join(problems)}. `{locks.REFRESH}` makes it again."
        )
    return declared.python, locked(lock)


def locked(lock: Path) -> list[str]:
    """The packages of a lock as arguments of `uv pip install`."""
    return ["--no-deps", "--require-hashes", "--requirements", str(lock)]


def run(command: list[str]) -> None:
    """Run an installer step. Its output goes to the log, and its exit code becomes that of the stage."""
    done = process.run_tool(command)
    if done.returncode != 0:
        process.exit_like(done.returncode)
