"""Command-line options of every stage that times something, and what they come to."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass

from scripts.lib.core.machine import physical_cores
from scripts.lib.timing.stopping import StoppingRule


@dataclass(frozen=True)
class Timing:
    """How to time: the stopping rule, and how many CPU threads may compute."""

    rule: StoppingRule
    threads: int


def add_threads(parser: argparse.ArgumentParser) -> None:
    """How many CPU threads may compute."""
    parser.add_argument("--threads", type=int, help="of the CPU; default: the physical cores")


def add_rule(parser: argparse.ArgumentParser) -> None:
    """When to stop timing."""
    parser.add_argument("--rule", default="{}", type=json.loads, help="stopping rule, JSON")


def threads(args: argparse.Namespace) -> int:
    """The value of `add_threads`."""
    return args.threads or physical_cores()


def timing(args: argparse.Namespace) -> Timing:
    """The values of both."""
    return Timing(StoppingRule(**args.rule), threads(args))
