"""Numbers of CPU threads: where `measure.threads` is a list, cells of a CPU are measured once for each number.

Each target and baseline of a CPU then has an entry per number, `llvm-cpu+2-threads` and `eager+2-threads`. What does
not depend on threads is shared: references, programs, and the modules that IREE compiles for `llvm-cpu`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_NUMBER = re.compile(r"\+([1-9][0-9]*)-threads(?=[/@]|$)")


def numbers(measure: Mapping[str, Any]) -> tuple[int, ...]:
    """The list `threads` of the section `measure`; empty if it is a number or not set."""
    declared = measure.get("threads")
    return tuple(map(int, declared)) if isinstance(declared, list) else ()


def most(measure: Mapping[str, Any], otherwise: int) -> int:
    """The largest number of threads of any measurement; `otherwise` if none is set."""
    return max(numbers(measure), default=measure.get("threads") or otherwise)


def named(name: str, number: int | None) -> str:
    """The name of an entry for a number of threads; None: the one that is not of a number."""
    return name if number is None else f"{name}+{number}-threads"


def of(name: str) -> int | None:
    """The number of threads in the name of an entry; None if it has none."""
    match = _NUMBER.search(name)
    return int(match[1]) if match else None


def shared(name: str) -> str:
    """The name of an entry or a cell without its number of threads, with its toolchain."""
    return _NUMBER.sub("", name)
