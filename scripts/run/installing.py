"""Makes locks and environments with uv, from the package indexes of uv or else of pip."""

from __future__ import annotations

import ast
import contextlib
import fcntl
import functools
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scripts.core import atomic, checkout, exits, process
from scripts.run import environments

REASON = "installer"
"""The reason of a stage that could not make an environment (supervise/diagnose.py)."""
_OF_UV = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_NO_INDEX")
_IN_UV_TOML = frozenset({"index", "index-url", "extra-index-url", "no-index"})
_OF_PIP = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX"}
"""Setting of pip -> variable of uv."""
_SECTIONS = ("global", "install", ":env:")
"""Those of pip's settings that count for `pip install`; a later one replaces an earlier one."""
_SETTING = re.compile(rf"({'|'.join(_SECTIONS)})\.({'|'.join(_OF_PIP)})=(.+)")
_IMPORT = (
    "import sys; sys.path.insert(0, sys.argv[1])\n"
    "from scripts.supervise import fork_server; fork_server.import_all()"
)
"""A program for the Python of an environment, which compiles what it imports to bytecode."""


@contextlib.contextmanager
def alone(prefix: Path) -> Iterator[None]:
    """Take the lock of the environment: runs in several folders may share it."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with (prefix.parent / f".{prefix.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting: another run is making {prefix}", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def uv() -> str:
    """The path of uv, for which pip's package indexes are taken over. Exits with a message if there is no uv.

    Only the driver's environment has uv, and this module is also imported in others.
    """
    path = uv_program()
    if not path:
        exits.fail(
            f"{sys.executable} has no uv, which makes the environments; "
            f"`{sys.executable} -m pip install -r requirements.txt` installs it",
            reason=REASON,
        )
    take_over_indexes()
    return path


def uv_program() -> str:
    """The path of uv of this environment; "" if it has none."""
    try:
        from uv import find_uv_bin

        return find_uv_bin()
    except (ImportError, FileNotFoundError):
        return ""


@functools.cache
def take_over_indexes() -> None:
    """Set uv's variables in this process to pip's package indexes, once, unless uv has an index of its own: uv does not
    read pip's settings.

    Prints a line that says so. It has only the hosts, because the rest of an address may be secret.
    """
    if any(os.environ.get(name) for name in _OF_UV) or any(map(_has_index, _uv_files())):
        return
    taken_over = {_OF_PIP[key]: value for key, value in _pips().items()}
    if not taken_over:
        return
    if "UV_INDEX" in taken_over and not os.environ.get("UV_INDEX_STRATEGY"):
        # Like pip: the best version of all indexes. uv takes those of the first one that has the package.
        taken_over["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    os.environ.update(taken_over)
    places = [_place(url) for name in _OF_PIP.values() for url in taken_over.get(name, "").split()]
    print(
        f"uv has no package index of its own, and takes pip's: {', '.join(places)} "
        "(UV_DEFAULT_INDEX sets another one)",
        flush=True,
    )


def _pips() -> dict[str, str]:
    """pip's indexes by setting, as pip reads them. Without pip, those of the variables."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = process.captured(command).stdout
    lines = [match.groups() for match in map(_SETTING.fullmatch, listed.splitlines()) if match]
    lines.sort(key=lambda line: _SECTIONS.index(line[0]))
    settings = {key: ast.literal_eval(value) for _, key, value in lines}
    for key in _OF_PIP:
        if of_variable := os.environ.get(f"PIP_{key.upper().replace('-', '_')}"):
            settings[key] = of_variable
    return {key: " ".join(value.split()) for key, value in settings.items() if value.strip()}


def _uv_files() -> Iterator[Path]:
    """The files where uv looks for settings, whether or not they exist."""
    if os.environ.get("UV_CONFIG_FILE"):
        yield Path(os.environ["UV_CONFIG_FILE"])
    elif not os.environ.get("UV_NO_CONFIG"):
        here = Path.cwd()
        yield from (folder / "uv.toml" for folder in (here, *here.parents))
        yield Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "uv/uv.toml"
        for folder in (os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":"):
            yield Path(folder) / "uv/uv.toml"
        yield Path("/etc/uv/uv.toml")


def _has_index(file: Path) -> bool:
    """Whether a file of uv's settings names an index. A file that cannot be read is left to uv to report."""
    try:
        settings: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return not _IN_UV_TOML.isdisjoint({*settings, *settings.get("pip", {})})


def _place(url: str) -> str:
    parts = urlsplit(url)
    return parts.hostname or parts.path.rpartition("@")[2]


def install(prefix: Path, pythons: Sequence[str], packages: Sequence[str]) -> None:
    """Make the environment from scratch, with the first of these versions of Python that can be had."""
    make_empty(prefix, pythons)
    add(prefix, packages)


def make_empty(prefix: Path, pythons: Sequence[str]) -> str:
    """Make an environment without packages, and return which of these versions of Python it has.

    It is the first one if the machine has it or uv can download it, else the next one that the machine has. Exits with a
    message if there is none.
    """
    for python in pythons:
        only_here = [] if python == pythons[0] else ["--no-python-downloads"]
        command = [uv(), "venv", "--clear", "--quiet", *only_here, "--python", python, str(prefix)]
        done = process.captured(command)
        if done.returncode == 0:
            if only_here:
                print(f"there is no Python {pythons[0]}; Python {python} is taken", flush=True)
            return python
        if done.returncode < 0 or find_python(python):
            sys.stderr.write(done.stderr)
            process.exit_like(done.returncode)
    others = f" (or {' or '.join(pythons[1:])})" if pythons[1:] else ""
    exits.fail(
        f"there is no Python {pythons[0]}{others} on this machine, and uv could not download {pythons[0]}; install it so "
        "that it is on PATH, or set UV_PYTHON_INSTALL_MIRROR to a mirror of uv's downloads",
        reason=REASON,
    )


def add(prefix: Path, packages: Sequence[str]) -> None:
    """Install packages into an environment, with the bytecode of what stages import."""
    interpreter = prefix / "bin" / "python"
    run([uv(), "pip", "install", "--python", str(interpreter), *packages])
    # Importing torch without bytecode takes two to three times as long, in every process, and where
    # PYTHONDONTWRITEBYTECODE is set or the folder is read-only, no process would write it.
    done = process.run_tool([str(interpreter), "-I", "-c", _IMPORT, str(checkout.ROOT)])
    if done.returncode != 0:
        print(
            f"note: importing the packages ended with exit code {done.returncode}; they are imported without bytecode"
        )


@functools.cache
def find_python(version: str) -> str:
    """The path of a Python of this version that uv finds on this machine; "" if there is none."""
    command = [uv_program(), "python", "find", "--system", "--no-python-downloads", version]
    return process.captured(command).stdout.strip()


def python_of(prefix: Path) -> str:
    """The version of Python of an environment that uv has made: `3.11.7`; "" if it cannot be read."""
    settings = prefix / "pyvenv.cfg"
    lines = settings.read_text(encoding="utf-8").splitlines() if settings.is_file() else []
    return next((line.split()[-1] for line in lines if line.startswith("version_info")), "")


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


def what_to_install(env_file: Path) -> tuple[tuple[str, ...], list[str]]:
    """The versions of Python that an environment may have, the best first, and its packages as arguments of
    `uv pip install`.

    The packages are those of the lock, with hashes. Without a lock they are the pins of the file,
    and a line on the log says so. Raises LockError if the lock does not match the pins.
    """
    declared = environments.declared(env_file)
    lock = environments.lock_file(env_file)
    if not lock.is_file():
        print(
            f"{lock}: not found; packages that {env_file} does not pin are installed in their newest "
            f"version. `{environments.LOCK_VERB}` makes it."
        )
        return (declared.python,), list(declared.requirements)
    if problems := environments.lock_disagreements(
        declared.requirements, environments.read_lock(lock)
    ):
        raise environments.LockError(
            f"{lock} is not of {env_file}: {'; '.join(problems)}. `{environments.LOCK_VERB}` makes it again."
        )
    return environments.lock_pythons(lock, declared.python), locked(lock)


def resolve(
    requirements: Iterable[str],
    python: str,
    before: str = "",
    options: Sequence[str] = (),
    header: str = environments.LOCK_VERB,
) -> str:
    """Return the text of a lock of the requirements, for a version of Python.

    Versions of the lock `before` are kept if they still fit. uv uses the indexes that it is configured
    for; the lock does not name them. `options`: further ones of `uv pip compile`. `header`: what the
    comment at the beginning gives as its command. Raises LockError with uv's message.
    """
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "requirements.in"
        wanted.write_text(
            "".join(f"{requirement}\n" for requirement in requirements), encoding="utf-8"
        )
        lock = Path(folder) / "lock"
        if before:
            lock.write_text(before, encoding="utf-8")
        done = process.captured(
            [
                *(uv(), "pip", "compile", wanted.name, "--output-file", lock.name),
                *("--python-version", python, "--generate-hashes", "--quiet", "--no-annotate"),
                *("--custom-compile-command", header, *options),
            ],
            Path(folder),
        )
        if done.returncode != 0:
            raise environments.LockError(f"uv finds no versions that fit:\n{done.stderr}")
        return lock.read_text(encoding="utf-8")


def without_wheels(lock: str, python: str) -> set[str] | None:
    """The packages of a lock that have no wheel with a hash in the lock for a version of Python on Linux (x86-64); None
    if a package refuses this Python. Raises LockError with uv's message if that cannot be found out."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "lock.txt").write_text(lock, encoding="utf-8")
        done = process.captured(
            [
                *(uv(), "pip", "compile", "lock.txt", "--no-deps", "--format", "pylock.toml"),
                *("--python", sys.executable),  # or uv looks for one of that version
                *("--python-version", python, "--python-platform", "x86_64-unknown-linux-gnu"),
            ],
            Path(folder),
        )
    if done.returncode == 1:  # no solution; 2 is any other error
        return None
    if done.returncode != 0:
        raise environments.LockError(f"uv does not find the files of the lock:\n{done.stderr}")
    packages = tomllib.loads(done.stdout)["packages"]
    return {
        package["name"]
        for package in packages
        if not any(
            f"sha256:{wheel['hashes']['sha256']}" in lock for wheel in package.get("wheels", ())
        )
    }


def download(packages: str, python: str, folder: Path) -> None:
    """Fill a folder with the files of packages with hashes (locks.for_python), for a version of Python.

    uv cannot do that. pip takes its own indexes, else the one of `UV_DEFAULT_INDEX`. Exits if it fails.
    """
    if not importlib.util.find_spec("pip"):
        exits.fail(
            f"{sys.executable} has no pip, which downloads; `{uv_program()} pip install --python {sys.executable} pip` installs it"
        )
    index = os.environ.get("UV_DEFAULT_INDEX", "")
    if index and "index-url" not in _pips():
        os.environ["PIP_INDEX_URL"] = index
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder), "--no-deps"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as wanted:
        wanted.write(packages)
        wanted.flush()
        run([*pip, "--require-hashes", "--python-version", python, "--requirement", wanted.name])
    if any(folder.glob("*.tar.gz")):  # uv builds it where there is no network
        run([*pip, "setuptools"])


def locked(lock: Path) -> list[str]:
    """The packages of a lock as arguments of `uv pip install`."""
    return ["--no-deps", "--require-hashes", "--requirements", str(lock)]


def run(command: list[str]) -> None:
    """Run an installer step. Its output goes to the log, and its exit code becomes that of the stage."""
    done = process.run_tool(command)
    if done.returncode != 0:
        process.exit_like(done.returncode)
