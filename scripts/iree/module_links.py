"""Paths by which IREE's tools can open a module.

`--module=<path>@<symbol>` names a symbol of a dynamic library (IREE 3.13, tooling/context_util.c), so the tools
cut every path at its first `@`, and cells of toolchains have one in the names of their folders.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

FOLDER = Path("results/cache/modules")
"""The folder of the links, in the working folder of a run. They are kept, because recorded commands name them."""


def openable(module: Path) -> Path:
    """Return the path of a module, or of a link to it if its own has an `@`."""
    if "@" not in str(module):
        return module
    digest = hashlib.sha256(str(module).encode()).hexdigest()[:12]
    link = FOLDER / f"{digest}-{module.name}"
    wanted = os.path.relpath(module, FOLDER)
    if not link.is_symlink() or os.readlink(link) != wanted:
        FOLDER.mkdir(parents=True, exist_ok=True)
        scratch = link.with_name(f"{link.name}.{os.getpid()}")
        scratch.symlink_to(wanted)
        scratch.replace(link)
    return link
