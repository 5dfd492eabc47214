"""The command-line option of every stage that runs or times something on a CPU."""

from __future__ import annotations

import argparse
from typing import Any

from scripts.core.machine import physical_cores
from scripts.core.options import option


def threads() -> Any:
    """The field for the number of CPU threads."""
    return option(factory=physical_cores, type=int, help="CPU threads (default: physical cores)")


def add_threads(parser: argparse.ArgumentParser) -> None:
    """The same for a parser without a dataclass of its options."""
    text = "CPU threads (default: physical cores)"
    parser.add_argument("--threads", type=int, default=physical_cores(), help=text)
