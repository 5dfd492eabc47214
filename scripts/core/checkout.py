"""Paths of the checkout's files in a run.

A run in the checkout's own folder uses relative paths such as `envs/iree.yaml`. A run in another
folder (`--directory`, or a Snakefile that imports this workflow) uses absolute paths, and its
commands set the path of this project's Python modules.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]


def is_here() -> bool:
    """Whether the working folder is the folder of the checkout."""
    return os.path.samefile(os.curdir, ROOT)


def path(file: str) -> str:
    """The path of a file or folder of the checkout, as used in the working folder."""
    return file if is_here() else str(ROOT / file)


def prefix() -> list[str]:
    """The words that go before `python -m scripts.…` to run it in the working folder.

    Python then imports modules from the checkout and the user's PYTHONPATH, and not from the
    working folder, which may have its own folder `scripts` or `models`.
    """
    return [] if is_here() else ["env", *map("=".join, variables().items())]


def variables() -> dict[str, str]:
    """Environment variables by which a process imports this project's modules, in whatever folder it runs."""
    places = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, places))),
        "PYTHONSAFEPATH": "1",
    }
