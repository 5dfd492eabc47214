"""Checkouts whose stages only write small files, and what Snakemake plans in them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.checkouts import Checkout, environment


@dataclass
class Stubs(Checkout):
    """A checkout of some models by four targets, whose stages only write small files."""

    def behave(self, *cases: str) -> None:
        """What stages do before they write: branches of a shell's `case` of their command.

        The interpreters are replaced in one step: jobs that a killed run has left may be starting them.
        """
        for python in self.path.glob(".venvs/*/bin/python"):
            lines = [line for line in python.read_text().splitlines() if "# case" not in line]
            lines[1:1] = [f'case "$*" in {case};; esac # case' for case in cases]
            aside = python.with_suffix(".next")
            aside.write_text("\n".join(lines) + "\n")
            aside.chmod(0o755)
            aside.replace(python)

    def start(self, *arguments: str) -> None:
        """Snakemake in the background, in a session of its own; its output is in run.txt."""
        with (self.path / "run.txt").open("w") as out:
            self.run = subprocess.Popen(
                [sys.executable, "-m", "snakemake", *arguments],
                cwd=self.path,
                env=environment() | self.variables,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def wait_for(self, ready: Callable[[], object], what: str, seconds: float = 120) -> None:
        """Poll until `ready()` is true, while the run that was started goes on."""
        deadline = time.monotonic() + seconds
        while not ready():
            assert self.run.poll() is None, f"ended before {what}:\n{self.output()[-6000:]}"
            assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
            time.sleep(0.1)

    def end(self, seconds: float = 300, code: int = 0) -> None:
        """Wait for the run that was started to end with an exit code."""
        try:
            ended: int | str = self.run.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            ended = f"none in {seconds:g} s"
        assert ended == code, self.output()[-6000:]

    def kill(self) -> None:
        """kill -9 of the run's whole process group."""
        os.killpg(self.run.pid, signal.SIGKILL)
        self.run.wait()

    def output(self) -> str:
        return (self.path / "run.txt").read_text()

    def made(self) -> dict[str, float]:
        """When each stage of each cell was recorded."""
        return {
            str(path.relative_to(self.path)): path.stat().st_mtime
            for path in self.path.glob("results/*/**/status.json")
        }


def planned(dry_run: str) -> dict[str, int]:
    """Jobs by rule, of what `snakemake -n` prints."""
    table = dry_run.split("Job stats:")[-1]
    return {rule: int(n) for rule, n in re.findall(r"^(\w+) +(\d+)$", table, re.M) if rule != "total"}  # fmt: skip


def repair(file: Path) -> None:
    """Edit a model's file."""
    file.write_text(file.read_text() + "# repaired\n")
