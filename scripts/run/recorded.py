"""The request of a stage that has run, by which its tools do other work on the same files: those of its environment and toolchain."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.config import stages
from scripts.core import checkout, requests, temporary
from scripts.core.requests import StageRequest
from scripts.iree import compile_cache

AGAIN = checkout.run_command("results/latency.csv")


class NoCase(Exception):
    """There is nothing to show of a cell, or to make a reproducer of. Says why, and what to do."""


@dataclass(frozen=True)
class Recorded:
    """The request of a stage, as its run in the folder `root` has written it."""

    root: Path
    request: StageRequest

    def run(
        self, module: str, fields: Mapping[str, Any], out: Path, log: Path | None = None
    ) -> int:
        """Run a stage with these fields, by the interpreter and in the folder of the recorded request; return its exit code.

        Its results go to `out`, and what it prints to `log`, if that is given. Raises NoCase if there is no such interpreter.
        """
        python = self.root / self.request.python
        if not python.is_file():
            raise NoCase(f"no {python}: environments that conda has made are not used for this")
        # A compilation is measured, not looked up.
        environment = os.environ | checkout.variables() | {compile_cache.FOLDER: ""}
        request = StageRequest(module, str(python), requests.plain(fields))
        with (
            temporary.folder("request") as folder,
            open(log, "w", encoding="utf-8") if log else nullcontext() as printed,
        ):
            request.write(folder)
            ended = subprocess.run(
                [*request.command(folder), "--out", str(out)],
                cwd=self.root,
                env=environment,
                stdout=printed,
                stderr=printed,
                check=False,
            )
        return ended.returncode


def recorded(root: Path, stage: str, cell: str) -> Recorded:
    """The request of a stage of a cell. Raises NoCase if none is recorded."""
    folder = (root / stages.status_path(stage, cell)).parent
    try:
        return Recorded(root, requests.read(folder))
    except (OSError, ValueError) as error:
        raise NoCase(f"{folder} has no request ({error}); run the cell again: {AGAIN}") from error
