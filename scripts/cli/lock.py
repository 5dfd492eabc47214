"""Make the locks of the environments from the pins of envs/<env>.yaml.

IREE's version is pinned once, in envs/IREE_VERSION, and written from there into every environment file that pins IREE.
A lock is envs/<env>.lock, and the script that installs it under conda. Needs a package index.
"""

from __future__ import annotations

import argparse
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scripts.core import atomic, checkout, exits
from scripts.run import environments, installing
from scripts.run.environments import EnvironmentFileError

IREE_VERSION = environments.ROOT / environments.ENV_FOLDER / "IREE_VERSION"
"""The file with the version of IREE that all environments pin."""
_IREE_PIN = re.compile(rf"\b({'|'.join(environments.PACKAGES['iree'])})==\S+")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("envs", nargs="*", help="default: every file of envs/")
    parser.add_argument(
        "--upgrade",
        action="store_true",
        help="take the newest version of every package that no file pins",
    )
    parser.add_argument(
        "--download",
        type=Path,
        metavar="DIR",
        help="fill a folder with the files of the locks, for machines without a network; change no lock",
    )
    parser.add_argument(
        "--pythons",
        type=lambda text: text.split(","),
        metavar="3.11,3.13",
        help="for which Python to download; default: the pinned one",
    )
    args = parser.parse_args()
    if args.download and args.upgrade:
        parser.error("--download takes the locks as they are, without --upgrade")
    if args.pythons and not args.download:
        parser.error("--pythons belongs to --download")
    if not args.download:
        checkout.refuse_installed("vmfbench lock")
    folder = environments.ROOT / environments.ENV_FOLDER
    envs = args.envs or sorted(path.stem for path in folder.glob("*.yaml"))
    files_of = {env: environments.env_file(env) for env in envs}
    for file in files_of.values():
        if not file.is_file():
            exits.fail(f"{file}: not found; expected the file of an environment")
    if args.download:
        return download(list(files_of.values()), args.pythons, args.download)
    for env, file in files_of.items():
        changed = pin_iree(file)
        try:
            wanted = files(file, resolve(file, args.upgrade))
        except EnvironmentFileError as error:
            exits.fail(str(error))
        except environments.LockError as error:
            exits.fail(f"{file}: {error}")
        for path, text in wanted.items():
            if _text(path) != text:
                atomic.write_text(path, text)
                changed.append(path)
        print(f"{env}: {', '.join(path.name for path in changed) or 'as it was'}")


def download(env_files_: list[Path], pythons: list[str] | None, folder: Path) -> None:
    """Fill a folder with the files of the locks of environments. Exits if a lock does not name a version of Python."""
    wanted = []
    for file in env_files_:
        lock, pinned = environments.lock_file(file), environments.declared(file).python
        if not lock.is_file():
            exits.fail(f"{lock}: not found; `{environments.LOCK_VERB} {file.stem}` makes it")
        known = environments.lock_pythons(lock, pinned)
        for python in pythons or [pinned]:
            if python not in known:
                exits.fail(f"{lock} is not for Python {python}: it is for {', '.join(known)}")
            wanted.append((file.stem, python, environments.lock_for_python(_text(lock), python)))
    folder.mkdir(parents=True, exist_ok=True)
    for env, python, packages in wanted:
        print(f"{env}, Python {python}: {packages.count('==')} packages", flush=True)
        installing.download(packages, python, folder)
    size = sum(file.stat().st_size for file in folder.iterdir()) / 1e9
    print(
        f"{folder}: {size:.1f} GB. Where there is no network: "
        f"UV_OFFLINE=1 UV_FIND_LINKS={folder.absolute()} vmfbench run …"
    )


def pin_iree(env_file: Path) -> list[Path]:
    """Write the version of IREE_VERSION into an environment file. Return the file if it had another one."""
    text = _text(env_file)
    pinned = with_iree(text, iree_version())
    if pinned == text:
        return []
    atomic.write_text(env_file, pinned)
    return [env_file]


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
    lock_file = environments.lock_file(env_file)
    declared = environments.declared(env_file)
    options = ["--universal", "--fork-strategy", "fewest", *(["--upgrade"] if upgrade else [])]
    # Without hashes: uv would keep them, and an index may have had fewer files, such as those for one Python.
    before = "\n".join(environments.locked_versions(lock_file)) if lock_file.is_file() else ""
    lock = installing.resolve(declared.requirements, declared.python, before, options)
    built = installing.without_wheels(lock, declared.python)
    tried = environments.LOCKED_PYTHONS
    with ThreadPoolExecutor() as pool:
        others = pool.map(lambda python: installing.without_wheels(lock, python), tried)
        pythons = [python for python, other in zip(tried, others, strict=True) if other == built]
    return environments.with_lock_pythons(lock, pythons)


def files(env_file: Path, lock: str) -> dict[Path, str]:
    """The files that belong to a lock, next to its environment file: the lock and the script for conda."""
    return {
        environments.lock_file(env_file): lock,
        environments.script_file(env_file): environments.deploy_script(
            env_file.stem, lock.encode()
        ),
    }


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
