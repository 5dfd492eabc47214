"""Values that a row does not need, such as the float64 reference, the FLOPs of a call, and profiles.

Computing them must never cost a row, and never count as an error of the model: it is our own work. A value that could not be
computed is left out, and its reason is in the record (the column `left_out`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from scripts.core import exits

Value = TypeVar("Value")

FLOAT64, WORK, PROFILE = "float64 reference", "FLOPs and bytes", "profile"
GREEDY, QUANTIZATION, SIZES = "greedy tokens", "quantization error", "layers and vocabulary"
LOCATIONS, DEVICE_MEMORY = "locations", "device memory"
"""Names of these values, for messages and records."""

MOST_CHARS = 300
"""Of a reason. It is a value of a table."""


def or_left_out(
    name: str, compute: Callable[[], Value], left_out: dict[str, str], otherwise: Value
) -> Value:
    """What `compute` returns; if it raises, `otherwise`, and `left_out[name]` says why.

    What ends the process (SystemExit, KeyboardInterrupt) is passed on.
    """
    try:
        return compute()
    except Exception as error:
        leave_out(name, f"{type(error).__name__}: {error}".removesuffix(": "), left_out)
        return otherwise


def leave_out(name: str, why: str, left_out: dict[str, str]) -> None:
    """Note that a value could not be computed, in the log of the stage and in `left_out`."""
    why = exits.without_addresses(" ".join(why.split()))
    left_out[name] = why if len(why) <= MOST_CHARS else why[: MOST_CHARS - 1] + "…"
    print(f"note: no {name}: {left_out[name]}", flush=True)
