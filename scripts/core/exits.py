"""The conventions between a stage and its supervisor: exit codes and the variable with the memory limit.

A stage script writes its artifacts and exits with 0, or prints ``error: <what is wrong>`` and exits
with one of these codes. Any other non-zero code is a plain `error`. The line may name its reason:
``error[model-inputs]: <what is wrong>``.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

OK = 0
UNSUPPORTED = 3
"""The tool does not support this model: a limit of the lowering path, not an error of the run."""
WRONG_RESULT = 4
"""The module ran and its outputs differ from golden; the artifacts contain the comparison."""
TOO_LARGE = 5
"""The weights need more memory than the stage may use; they were counted before allocation."""
UNAVAILABLE = 69
"""This machine does not have the device (EX_UNAVAILABLE of sysexits.h)."""
LACKS_PROFILE = "device profile"
"""The beginning of an UNAVAILABLE message about a device that exists but lacks what the module was compiled for."""

STATUS_OF = {
    UNSUPPORTED: "unsupported",
    WRONG_RESULT: "error",
    TOO_LARGE: "oom",
    UNAVAILABLE: "unavailable",
}
KEEPS_ARTIFACTS = frozenset({OK, WRONG_RESULT})

MOST_CHARS = 20_000
"""Of a message: a file may have a name or a text of many megabytes."""
CAUSE = "cause: "
"""The beginning of a line in which a stage says what it knows of the cause of a tool's failure."""

LIMIT_VARIABLE = "VMFBENCH_MEMORY_MB"
"""Environment variable of a stage, set by the supervisor: the MiB that its process tree may use."""


_OBJECT = re.compile(r"( object)? at 0x[0-9a-fA-F]+")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{9,12}\b")
_ID = re.compile(
    r"(?<![\w.-])(?:9[34]\d{12}|1(?:39|40)\d{12})(?![\w.])"
)  # 0x55… and 0x7f…, as id() gives them


def without_addresses(text: str) -> str:
    """A message without addresses of memory, which differ from run to run: `KeyError: <id>`, `<Mode object>`."""
    return _ID.sub("<id>", _ADDRESS.sub("<id>", _OBJECT.sub(r"\1", text)))


def code_of(run: Callable[[], object]) -> int:
    """Call `run` and return the exit code with which Python would have ended after it. Prints the traceback
    of an exception. A KeyboardInterrupt is passed on: it comes from outside."""
    try:
        run()
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        print(stop.code, file=sys.stderr)
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def fail(message: str, code: int = 1, reason: str = "") -> NoReturn:
    """Print an error message, which the supervisor will quote, and exit with `code`.

    `reason`: the reason of a plain error, if the stage knows it.
    """
    said = f"error[{reason}]" if reason else "error"
    if len(message) > MOST_CHARS:
        message = f"{message[:MOST_CHARS]} … and {len(message) - MOST_CHARS:,} more characters"
    print(f"{said}: {message}", file=sys.stderr, flush=True)
    raise SystemExit(code)
