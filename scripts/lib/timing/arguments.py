"""Command-line options of every stage that times something, and what they come to."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

from scripts.lib.core.machine import physical_cores
from scripts.lib.timing.rounds import FirstRound
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
    """When to stop timing, and which round it is."""
    parser.add_argument("--rule", default="{}", type=json.loads, help="stopping rule, JSON")
    parser.add_argument(
        "--first",
        type=Path,
        help="measurement.json of the first round; this is the second then",
    )


def threads(args: argparse.Namespace) -> int:
    """The value of `add_threads`."""
    return args.threads or physical_cores()


def timing(args: argparse.Namespace) -> Timing:
    """The values of both."""
    return Timing(StoppingRule(**args.rule), threads(args))


def first_round(args: argparse.Namespace) -> FirstRound | None:
    """What the first round found; None where this is the first."""
    return FirstRound.read(args.first) if args.first else None
