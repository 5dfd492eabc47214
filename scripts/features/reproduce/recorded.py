"""The command of a stage as it was recorded, to run another command with the same options."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.core import checkout
from scripts.features.reproduce.case import NoCase
from scripts.matrix import stages
from scripts.supervise import in_turns, outcome


@dataclass(frozen=True)
class Recorded:
    """`root`: the folder in which it ran. `python`: the interpreter. `options`: each with its values, in order."""

    root: Path
    python: str
    options: tuple[tuple[str, tuple[str, ...]], ...]

    def values(self, name: str) -> tuple[str, ...]:
        """The values of an option; none if the command does not have it."""
        return next((values for option, values in self.options if option == name), ())

    def words(self, *names: str) -> list[str]:
        """The options with these names, and their values."""
        return [word for name, values in self.options if name in names for word in (name, *values)]

    def run(self, module: str, words: Sequence[str]) -> int:
        """Run a module of this project with the interpreter and in the folder of the command; return its exit code. Raises
        NoCase if there is no such interpreter."""
        python = self.root / self.python
        if not python.is_file():
            raise NoCase(f"no {python}: environments that conda has made are not used for this")
        environment = os.environ | in_turns.with_code_of(checkout.ROOT)
        command = [str(python), "-m", module, *words]
        return subprocess.run(command, cwd=self.root, env=environment, check=False).returncode


def of(root: Path, stage: str, cell: str) -> Recorded:
    """The command of a stage of a cell. Raises NoCase if none is recorded."""
    path = root / stages.status_path(stage, cell)
    words = shlex.split(outcome.read_or_damaged(path).command)
    if "-m" not in words:
        raise NoCase(
            f"{path} has no command; run the cell again: snakemake --cores 8 results/latency.csv"
        )
    at = words.index("-m")
    options: list[tuple[str, list[str]]] = []
    for word in words[at + 2 :]:
        if word.startswith("--"):
            options.append((word, []))
        else:
            options[-1][1].append(word)
    return Recorded(root, words[at - 1], tuple((name, tuple(values)) for name, values in options))
