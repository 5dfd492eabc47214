"""Compiles a text, and says how that failed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.supervise.diagnose import Diagnosis, diagnose

_ERROR = re.compile(r":\d+:\d+: error: ")
TIMEOUT = "timeout"
"""The status of a compilation that reached its time limit."""


@dataclass(frozen=True)
class Compiled:
    """`failure`: None if the program compiled. `log`: what the compiler printed. `others`: its further errors, if any. Dispatches
    are compiled in parallel, so which error is the first one may differ from run to run."""

    failure: Diagnosis | None
    log: str
    others: tuple[Diagnosis, ...] = ()


@dataclass(frozen=True)
class Compiler:
    """iree-compile with some flags; `folder`: for its files."""

    path: str
    flags: tuple[str, ...]
    folder: Path

    def run(self, text: str, limit_s: float, out: Path = Path("/dev/null")) -> Compiled:
        """Compile a program into the file `out`. One that reaches the time limit has the failure `timeout`."""
        (self.folder / "program.mlir").write_text(text, encoding="utf-8")
        command = [self.path, *self.flags, "program.mlir", "-o", str(out)]
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Compiled(Diagnosis(TIMEOUT, "time-limit", f"more than {limit_s:.0f} s"), "")
        log = done.stdout + done.stderr
        if not done.returncode:
            return Compiled(None, log)
        return Compiled(diagnose(done.returncode, log), log, tuple(_further(done.returncode, log)))


def _further(returncode: int, log: str) -> Iterator[Diagnosis]:
    """The errors after the first one, of a compiler that did not crash."""
    lines = log.splitlines()
    places = [place for place, line in enumerate(lines) if _ERROR.search(line)]
    for place in places[1:] if returncode > 0 else ():
        yield diagnose(returncode, "\n".join(lines[place:]))
