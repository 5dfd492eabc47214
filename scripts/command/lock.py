"""Make or check the locks of the environments from the pins of envs/<env>.yaml.

IREE's version is pinned once, in envs/IREE_VERSION, and written from there into every environment file that pins IREE.
A lock is envs/<env>.lock, and the script that installs it under conda. Needs a package index.
"""

from __future__ import annotations

import argparse
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scripts.core import atomic, exits
from scripts.matrix import env_files
from scripts.matrix.env_files import EnvironmentFileError
from scripts.run import environments, installing, locks

IREE_VERSION = environments.ROOT / env_files.FOLDER / "IREE_VERSION"
"""The file with the version of IREE that all environments pin."""
_IREE_PIN = re.compile(rf"\b({'|'.join(env_files.PACKAGES['iree'])})==\S+")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("envs", nargs="*", help="default: every file of envs/")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a lock is out of date"
    )
    parser.add_argument(
        "--upgrade",
        action="store_true",
        help="take the newest version of every package that no file pins",
    )
    args = parser.parse_args()
    folder = environments.ROOT / env_files.FOLDER
    envs = args.envs or sorted(path.stem for path in folder.glob("*.yaml"))
    stale = []
    for env in envs:
        file = environments.env_file(env)
        if not file.is_file():
            exits.fail(f"{file}: not found; expected the file of an environment")
        changed = pin_iree(file, write=not args.check)
        try:
            wanted = files(file, resolve(file, args.upgrade))
        except EnvironmentFileError as error:
            exits.fail(str(error))
        except locks.LockError as error:
            exits.fail(f"{file}: {error}")
        changed += [path for path, text in wanted.items() if _text(path) != text]
        stale += changed
        if not args.check:
            for path in wanted.keys() & changed:
                atomic.write_text(path, wanted[path])
        print(f"{env}: {', '.join(path.name for path in changed) or 'as it was'}")
    if args.check and stale:
        exits.fail(
            f"{', '.join(path.name for path in stale)}: not what the pins give now; "
            f"`{locks.REFRESH}` makes them"
        )


def pin_iree(env_file: Path, write: bool) -> list[Path]:
    """Write the version of IREE_VERSION into an environment file. Return the file if it had another one."""
    text = _text(env_file)
    pinned = with_iree(text, iree_version())
    if write and pinned != text:
        atomic.write_text(env_file, pinned)
    return [env_file] if pinned != text else []


def iree_version() -> str:
    """The version of IREE that all environments pin."""
    return IREE_VERSION.read_text(encoding="utf-8").strip()


def with_iree(text: str, version: str) -> str:
    """The text of an environment file with this version of IREE's packages."""
    return _IREE_PIN.sub(rf"\1=={version}", text)


def resolve(env_file: Path, upgrade: bool = False) -> str:
    """The lock of an environment file, resolved by uv for every system, and for the file's Python and later ones.

    Versions of an existing lock are kept if they still fit. Raises LockError with uv's message.
    """
    lock_file = locks.lock_file(env_file)
    declared = env_files.declared(env_file)
    options = ["--universal", "--fork-strategy", "fewest", *(["--upgrade"] if upgrade else [])]
    # Without hashes: uv would keep them, and an index may have had fewer files, such as those for one Python.
    before = "\n".join(locks.versions(lock_file)) if lock_file.is_file() else ""
    lock = installing.resolve(declared.requirements, declared.python, before, options)
    built = installing.without_wheels(lock, declared.python)
    with ThreadPoolExecutor() as pool:
        others = pool.map(lambda python: installing.without_wheels(lock, python), locks.PYTHONS)
        pythons = [
            name for name, other in zip(locks.PYTHONS, others, strict=True) if other == built
        ]
    return locks.with_pythons(lock, pythons)


def files(env_file: Path, lock: str) -> dict[Path, str]:
    """The files that belong to a lock, next to its environment file: the lock and the script for conda."""
    return {
        locks.lock_file(env_file): lock,
        locks.script_file(env_file): locks.script(env_file.stem, lock.encode()),
    }


def _text(path: Path) -> str:
    """The text of a file; "" where there is none."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""
