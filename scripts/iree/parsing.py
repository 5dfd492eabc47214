"""Whether another version of IREE can read a program. Programs are written by the pinned one."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from scripts.iree.tools import tool

_ERROR = re.compile(r"error: (?P<message>.+)$", re.MULTILINE)


def problem(program: Path) -> str:
    """Return why the tools of this environment cannot parse a program; "" if they can.

    iree-opt without passes parses and verifies a program.
    """
    command = [tool("iree-opt"), str(program), "-o", "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode == 0:
        return ""
    found = _ERROR.search(done.stderr)
    return found["message"].strip() if found else f"iree-opt ended with {done.returncode}"
