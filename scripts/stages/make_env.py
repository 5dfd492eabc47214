"""Make `.venvs/<env>/` with uv from the lock of an environment file, or from what a toolchain changes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import atomic, commands, exits, requests
from scripts.core.commands import option
from scripts.core.requests import Folders
from scripts.iree import tools
from scripts.run import environments, installing
from scripts.run.environments import EnvironmentFileError
from scripts.supervise.environment_damage import ENVIRONMENT_MARK, environment_damage


@dataclass(frozen=True, kw_only=True)
class EnvRequest:
    """`prefix`: the folder of the environment. `pins`: a digest of what is pinned. `toolchain`: what a toolchain changes of the file."""

    env_file: Path
    prefix: Path
    pins: str
    toolchain: Mapping[str, Any] = option(factory=dict)


def make_env(args: EnvRequest, folders: Folders) -> None:
    """Make the environment, and write the versions of its packages, its pins, and what its tools say of themselves."""
    commands.report_working()
    with installing.alone(args.prefix):
        is_made = environments.whole(args.prefix) == args.pins
        if is_made and not environment_damage(str(args.prefix / "bin/python")):
            print(f"{args.prefix} is made of these pins already")
        else:
            make(args)
            atomic.write_text(args.prefix / ENVIRONMENT_MARK, f"{args.pins}\n")
        versions = installing.installed(args.prefix)
    python = installing.python_of(args.prefix)
    atomic.write_json(folders.results / "tools.json", tools.said(args.prefix) | {"python": python})
    atomic.write_json(folders.results / "versions.json", versions)
    atomic.write_text(folders.results / "pins.txt", f"{args.pins}\n")


def make(args: EnvRequest) -> None:
    """Make the environment. Exits with a message if its file, lock or local build is wrong."""
    try:
        if args.toolchain:
            _make_of_toolchain(args)
        else:
            installing.install(args.prefix, *installing.what_to_install(args.env_file))
    except (EnvironmentFileError, environments.LockError) as error:
        exits.fail(str(error))


def _make_of_toolchain(args: EnvRequest) -> None:
    # Of a feature, which may have been taken out.
    from scripts.tools.toolchains import toolchain_environments as toolchains

    try:
        changed = requests.decode(toolchains.Definition, args.toolchain)
        toolchains.install(args.prefix, args.env_file, changed, args.pins)
    except toolchains.TreeError as error:
        exits.fail(str(error))


if __name__ == "__main__":
    requests.run(EnvRequest, make_env)
