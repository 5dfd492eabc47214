"""Find imports of packages that an environment does not have, in what capturing a model may reach; used by test_environments.py.

Prints a line of JSON: for each missing package a file that imports it. An import inside `try`, `if` or `with` counts as optional.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = (
    *("torch/_dynamo", "torch/_export", "torch/export", "torch/_functorch", "torch/_higher_order_ops"),
    *("torch/_subclasses", "torch/_decomp", "torch/_refs", "torch/fx", "torch/nn", "torch_mlir"),
    *("torch/utils/*.py", "torch_xla/*.py", "torch_xla/core", "torch_xla/experimental/*.py"),
)  # fmt: skip


def main() -> None:
    site = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    missing: dict[str, str] = {}
    for folder in FOLDERS:
        for path in sorted(site.glob(folder)):
            for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
                for name in imported(ast.parse(file.read_text(encoding="utf-8"))):
                    if name not in sys.modules and importlib.util.find_spec(name) is None:
                        missing.setdefault(name, str(file.relative_to(site)))
    print(json.dumps(missing))


def imported(node: ast.AST) -> Iterator[str]:
    """The top-level packages that a module imports and needs."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and not child.level and child.module:
            yield child.module.partition(".")[0]
        elif not isinstance(child, ast.Try | ast.If | ast.With):
            yield from imported(child)


if __name__ == "__main__":
    main()
