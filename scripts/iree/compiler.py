"""Compiles the text of a program under a time limit, for commands that try many programs."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from scripts.iree.tools import tool


@dataclass(frozen=True)
class Compiled:
    """How iree-compile ended. `returncode`: negative for a signal, None at the time limit. `log`: what it printed."""

    returncode: int | None
    log: str


@dataclass(frozen=True)
class Compiler:
    """iree-compile of this environment with some flags; `folder`: for its files."""

    flags: tuple[str, ...]
    folder: Path

    def run(self, text: str, limit_s: float, out: Path = Path("/dev/null")) -> Compiled:
        """Compile a program into the file `out`."""
        (self.folder / "program.mlir").write_text(text, encoding="utf-8")
        try:
            done = subprocess.run(
                [tool("iree-compile"), *self.flags, "program.mlir", "-o", str(out)],
                cwd=self.folder,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Compiled(None, "")
        return Compiled(done.returncode, done.stdout + done.stderr)
