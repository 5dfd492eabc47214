"""The command `vmfbench`. This folder is installed as the package `vmfbench`, which finds the checkout."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Run the verb that the command line names."""
    # Before the working folder, which may have a folder `scripts` of its own.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from scripts.command import verbs

    verbs.main()
