"""Verify a compiled module against golden on a device."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from scripts.core import channel, exits
from scripts.iree import vulkan_profile
from scripts.iree.session import Module, NoDevice, device_info
from scripts.iree.verify_module import Files, verify_module
from scripts.timing import arguments as timing_arguments
from scripts.torch_model import footprint
from scripts.verify import arguments as check_arguments


def main() -> None:
    channel.working()
    parser = argparse.ArgumentParser(
        prog="python -m scripts.stages.verify_iree", description=__doc__
    )
    parser.add_argument(
        "--vmfb",
        required=True,
        type=Path,
        nargs="+",
        help="module; of several, the first that is not empty",
    )
    parser.add_argument("--weights", required=True, type=Path)
    parser.add_argument("--inputs", required=True, type=Path)
    check_arguments.add_references(parser)
    check_arguments.add_tolerance(parser)
    parser.add_argument("--device", required=True, help="IREE device URI: local-task, cuda://0")
    timing_arguments.add_threads(parser)
    parser.add_argument(
        "--raw-inputs", required=True, type=Path, help="folder that gets the inputs as raw bytes"
    )
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()
    module = Module(_made(args.vmfb), args.weights, args.device)
    check, threads = check_arguments.check(args), timing_arguments.threads(args)
    try:
        device = device_info(module.device, threads)
    except NoDevice as error:
        exits.fail(f"no device {module.device}: {error}", exits.UNAVAILABLE)
    if lacking := vulkan_profile.lacking(module.vmfb, module.device, device["path"]):
        exits.fail(f"{exits.LACKS_PROFILE}: {device['name']} lacks {lacking}", exits.UNAVAILABLE)
    footprint.require(footprint.of_archive(check.signature()), "verify")
    files = Files(args.inputs, args.raw_inputs, args.out)
    verify_module(module, device["name"], files, check, threads)


def _made(modules: Sequence[Path]) -> Path:
    """Return the module that was made: a stage that failed, or had nothing to do, left an empty file.

    Exits if there is none, as where nothing that a target asks for has passed in its tuning.
    """
    made = next((path for path in modules if path.stat().st_size), None)
    if made is None:
        exits.fail(
            f"{modules[-1]} is empty: nothing that is configured has passed", reason="no-module"
        )
    return made


if __name__ == "__main__":
    main()
