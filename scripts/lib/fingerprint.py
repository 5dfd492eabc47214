"""What code a stage is made of, and whether a cell that failed is to be tried again.

A stage's fingerprint is a hash over its script and every module of this project that it
imports, found in the source. Failed cells run again when it changes; cells that are done do
not (their rows carry the fingerprint that made them).
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Collection, Iterable
from pathlib import Path

from scripts.lib import outcome

ROOT = Path(__file__).parents[2]
_RETRY = re.compile(r"^(?P<base>.*?)(\+(?P<count>\d+))?$")


def of_modules(modules: Iterable[str], root: Path = ROOT) -> str:
    """Twelve hex digits over the sources of `modules` and all of `scripts` they import."""
    digest = hashlib.sha256()
    for path in sorted(_closure(tuple(modules), root)):
        digest.update(str(path.relative_to(root)).encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def due(status_path: str | Path, current: str, retry: Collection[str] = ()) -> str:
    """The fingerprint to hand to Snakemake as a param: a new value means run again.

    Nothing recorded, or a failure under other code: `current`. Done, or failed under this
    very code: what was recorded. `retry` holds statuses to run again whatever the code (or
    "all"): the recorded value counts up then, so that the forced run happens once.
    """
    path = Path(status_path)
    if not path.is_file():
        return current
    try:
        recorded = outcome.read(path)
    except ValueError:
        return current
    match = _RETRY.match(recorded.fingerprint)
    if recorded.status in retry or "all" in retry:
        return f"{current}+{int(match['count'] or 0) + 1}"
    if recorded.status == outcome.OK or match["base"] == current:
        return recorded.fingerprint
    return current


def _closure(modules: tuple[str, ...], root: Path) -> frozenset[Path]:
    found: dict[str, Path] = {}
    todo = list(modules)
    while todo:
        name = todo.pop()
        path = root / (name.replace(".", "/") + ".py")
        if name in found or not path.is_file():
            continue
        found[name] = path
        todo.extend(_imports(path))
    return frozenset(found.values())


def _imports(path: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in names if name.split(".")[0] == "scripts"]
