"""Command-line options of every command that looks into the calls of a compiled module."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from scripts.core import exits
from scripts.iree import benchmark
from scripts.iree.session import Module, NoDevice, device_info
from scripts.timing import arguments as timing_arguments


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options for the module, the files of its reference, the device and the threads."""
    parser.add_argument("--vmfb", required=True, type=Path)
    parser.add_argument("--weights", required=True, type=Path)
    parser.add_argument("--inputs", required=True, type=Path)
    parser.add_argument("--signature", required=True, type=Path)
    parser.add_argument("--device", required=True, help="IREE device URI: local-task")
    timing_arguments.add_threads(parser)


@dataclass(frozen=True)
class Called:
    """A module, and what it is called with. `threads`: of a CPU."""

    module: Module
    inputs: Path
    signature: Path
    threads: int

    @classmethod
    def of(cls, args: argparse.Namespace) -> Called:
        """Return the values of the options. Exits if this machine does not have the device."""
        threads = timing_arguments.threads(args)
        try:
            device_info(args.device, threads)
        except NoDevice as error:
            exits.fail(f"no device {args.device}: {error}", exits.UNAVAILABLE)
        module = Module(args.vmfb, args.weights, args.device)
        return cls(module, args.inputs, args.signature, threads)

    def raw_inputs(self, folder: Path) -> list[str]:
        """Write the inputs as raw bytes; return the flags of the tools that name them."""
        return benchmark.raw_inputs(self.inputs, self.signature, folder)
