"""Flags of iree-compile that this project adds to those of a target."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scripts.iree import float64_flags, tuning_spec


def of(program: Path, given: Sequence[str] = ()) -> list[str]:
    """The flags that a program needs where `given` are those of its target."""
    return [*float64_flags.flags(program, given), *tuning_spec.serial(given)]
