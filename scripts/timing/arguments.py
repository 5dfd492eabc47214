"""The command-line option of every stage that runs or times something on a CPU."""

from __future__ import annotations

from typing import Any

from scripts.core.commands import option
from scripts.core.machine import physical_cores


def threads() -> Any:
    """The field for the number of CPU threads."""
    return option(factory=physical_cores, type=int, help="CPU threads (default: physical cores)")
