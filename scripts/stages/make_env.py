"""Make `.venvs/<env>/` with uv from the lock of an environment file, or from what a toolchain changes of it."""

from __future__ import annotations

import argparse
from pathlib import Path

from scripts.core import atomic, channel, exits
from scripts.iree import tools
from scripts.matrix.env_files import EnvironmentFileError
from scripts.run import environments, installing, locks


def main() -> None:
    channel.working()
    parser = argparse.ArgumentParser(prog="python -m scripts.stages.make_env", description=__doc__)
    parser.add_argument("--env-file", required=True, type=Path)
    parser.add_argument("--prefix", required=True, type=Path, help="folder of the environment")
    parser.add_argument("--pins", required=True, help="digest of what is pinned")
    parser.add_argument(
        "--toolchain", default="", help="JSON object: what a toolchain changes of the file"
    )
    parser.add_argument(
        "--reuse", action="store_true", help="keep an environment that was made of these pins"
    )
    parser.add_argument("--out-versions", required=True, type=Path)
    parser.add_argument("--out-pins", required=True, type=Path)
    parser.add_argument("--out-tools", type=Path, help="JSON file: what tools say of themselves")
    args = parser.parse_args()
    with installing.alone(args.prefix) as waited:
        if (args.reuse or waited) and environments.whole(args.prefix) == args.pins:
            print(f"{args.prefix} is made of these pins already")
        else:
            make(args)
            atomic.write_text(args.prefix / environments.MARK, f"{args.pins}\n")
        versions = installing.installed(args.prefix)
    if args.out_tools:
        atomic.write_json(args.out_tools, tools.said(args.prefix))
    atomic.write_json(args.out_versions, versions)
    atomic.write_text(args.out_pins, f"{args.pins}\n")


def make(args: argparse.Namespace) -> None:
    """Make the environment. Exits with a message if its file, lock or local build is wrong."""
    try:
        if args.toolchain:
            _make_of_toolchain(args)
        else:
            installing.install(args.prefix, *installing.what_to_install(args.env_file))
    except (EnvironmentFileError, locks.LockError) as error:
        exits.fail(str(error))


def _make_of_toolchain(args: argparse.Namespace) -> None:
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
