"""Make `.venvs/<env>/` with uv from the lock of an environment file, or from what a toolchain changes of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scripts.core import atomic, commands, exits
from scripts.core.commands import option
from scripts.iree import tools
from scripts.run import environments, installing
from scripts.run.environments import EnvironmentFileError
from scripts.supervise.diagnose import ENVIRONMENT_MARK, environment_damage


@dataclass(frozen=True, kw_only=True)
class Options:
    env_file: Path
    prefix: Path = option(help="folder of the environment")
    pins: str = option(help="digest of what is pinned")
    toolchain: str = option("", help="JSON object: what a toolchain changes of the file")
    out_versions: Path
    out_pins: Path
    out_tools: Path | None = option(None, help="JSON file: what tools say of themselves")


def main() -> None:
    commands.report_working()
    args = commands.parse_options(Options)
    with installing.alone(args.prefix):
        is_made = environments.whole(args.prefix) == args.pins
        if is_made and not environment_damage(str(args.prefix / "bin/python")):
            print(f"{args.prefix} is made of these pins already")
        else:
            make(args)
            atomic.write_text(args.prefix / ENVIRONMENT_MARK, f"{args.pins}\n")
        versions = installing.installed(args.prefix)
    if args.out_tools:
        python = installing.python_of(args.prefix)
        atomic.write_json(args.out_tools, tools.said(args.prefix) | {"python": python})
    atomic.write_json(args.out_versions, versions)
    atomic.write_text(args.out_pins, f"{args.pins}\n")


def make(args: Options) -> None:
    """Make the environment. Exits with a message if its file, lock or local build is wrong."""
    try:
        if args.toolchain:
            _make_of_toolchain(args)
        else:
            installing.install(args.prefix, *installing.what_to_install(args.env_file))
    except (EnvironmentFileError, environments.LockError) as error:
        exits.fail(str(error))


def _make_of_toolchain(args: Options) -> None:
    # Of a feature, which may have been taken out.
    from scripts.features.toolchains import toolchain_environments as toolchains
    from scripts.features.toolchains.build_trees import TreeError

    try:
        changed = toolchains.Definition.of_text(args.toolchain)
        toolchains.install(args.prefix, args.env_file, changed, args.pins)
    except TreeError as error:
        exits.fail(str(error))


if __name__ == "__main__":
    main()
