"""The command-line option of every stage that runs or times something on a CPU."""

from __future__ import annotations

import argparse

from scripts.core.machine import physical_cores


def add_threads(parser: argparse.ArgumentParser) -> None:
    """Add the option for the number of CPU threads."""
    parser.add_argument("--threads", type=int, help="CPU threads (default: physical cores)")


def threads(args: argparse.Namespace) -> int:
    """The value of `add_threads`."""
    return args.threads or physical_cores()
