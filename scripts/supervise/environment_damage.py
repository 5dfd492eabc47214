"""Damaged environments: where a file of a package is missing or cut, what a stage says is not about its cell."""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from scripts.supervise import outcome
from scripts.supervise.diagnose import Diagnosis

ENVIRONMENT_MARK = "made_of.txt"
"""File in an environment with its `pins_digest`, written when the environment is complete (run/environments.py)."""


def environment_damage(python: str) -> str:
    """What is wrong with the environment of a stage, and what to do; "" if nothing is, or it is not one that uv has made.

    `python`: the path of its interpreter. Only existence and sizes are compared: reading the files takes minutes.
    """
    program = Path(python)
    folder = program.parent.parent
    if program.parent.name != "bin":
        return ""
    if not folder.is_dir():
        return f"{folder} is gone; the next run makes it again"
    if not program.exists():
        what = f"{program} is missing"
    elif (folder / ENVIRONMENT_MARK).is_file():
        what = next(_damaged_files(folder), "")
    else:
        what = ""
    return f"{what}; {_remedy(folder)}" if what else ""


def with_environment_damage(diagnosis: Diagnosis, python: str) -> Diagnosis:
    """The diagnosis of a failed process, or `damaged-environment` if the environment of its interpreter is damaged."""
    if diagnosis.reason == outcome.DAMAGED_ENVIRONMENT:
        what = f"a .pyc file is truncated; {_remedy(Path(python).parent.parent)}"
    elif diagnosis.status in ("error", "crashed") and diagnosis.reason not in outcome.PASSING:
        what = environment_damage(python)
    else:
        what = ""
    if not what:
        return diagnosis
    return Diagnosis("error", outcome.DAMAGED_ENVIRONMENT, f"{what}: {diagnosis.detail}")


def _damaged_files(folder: Path) -> Iterator[str]:
    """The files that are missing, or whose size is not the one in a package's own list of them (RECORD of its wheel)."""
    sizes = defaultdict[str, set[int]](set)  # several packages may have the same file
    for record in folder.glob("lib/python*/site-packages/*.dist-info/RECORD"):
        with record.open(encoding="utf-8", newline="") as file:
            for name, _, size in (line for line in csv.reader(file) if len(line) == 3):
                # Installers write programs (../../../bin) and files about the package anew.
                is_rewritten = name.startswith("..") or ".dist-info/" in name
                if size.isdecimal() and not is_rewritten:
                    sizes[f"{record.parent.parent}/{name}"].add(int(size))
    for path, expected in sizes.items():
        try:
            held = os.stat(path).st_size
        except OSError:
            yield f"{path} is missing"
            continue
        if held not in expected:
            yield f"{path} has {held:,} bytes and was made with {max(expected):,}"


def _remedy(folder: Path) -> str:
    return f"delete {folder}, and the next run makes it again"
