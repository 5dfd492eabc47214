"""The package `vmfbench` of an installation: finds the workflow's code and runs the command from there.

A wheel has the code in the folder `_workflow` beside this file (pyproject.toml), which only processes of vmfbench have on
their import path. In a checkout this folder is a part of the code.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Run the verb that the command line names."""
    here = Path(__file__).resolve().parent
    installed = here / "_workflow"
    # Before the working folder, which may have a folder `scripts` of its own.
    sys.path.insert(0, str(installed if installed.is_dir() else here.parents[2]))
    from scripts.cli import verbs
    from scripts.core import checkout

    if not checkout.is_here():  # stages that a verb starts find the code as well
        os.environ.update(checkout.variables())
    verbs.main()
