"""Reads imports and literals of Python files without importing them.

So the packages that a file imports need not be installed.
"""

from __future__ import annotations

import ast
import functools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def closure(
    modules: Iterable[str], root: Path, follow: Callable[[str], bool] = lambda _: True
) -> frozenset[Path]:
    """The files under `root` of `modules` and of all modules that they import, directly or not.

    `follow(name)` decides whether an imported module is included. Raises SyntaxError or ValueError,
    with the file's name, if a file is not valid Python.
    """
    imports: dict[str, list[Path]] = {}
    todo = list(modules)
    while todo:
        name = todo.pop()
        if name in imports:
            continue
        path = root.joinpath(*name.split("."))
        files = (path.with_name(f"{path.name}.py"), path / "__init__.py")
        imports[name] = [file for file in files if os.path.isfile(file)]
        # Importing a.b runs a/__init__.py first.
        wanted = [name.rpartition(".")[0]]
        for file in imports[name]:
            wanted += names(file, name)
        todo += [name for name in wanted if name and follow(name)]
    return frozenset(file for files in imports.values() for file in files)


def of_project(modules: Iterable[str], root: Path) -> frozenset[Path]:
    """The files under `root` of `modules` and of all modules of `scripts` that they import."""
    return closure(modules, root, lambda name: name.split(".")[0] == "scripts")


def names(path: Path, module: str) -> list[str]:
    """Dotted names of the modules that the file of `module` may import; for `from a import b`, a and a.b."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    modules: list[str] = []
    for node in _imports(path.read_bytes(), str(path)):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        else:
            above = package[: len(package) - node.level + 1] if node.level else []
            source = [*above, *([node.module] if node.module else [])]
            modules += [".".join(source), *(".".join([*source, a.name]) for a in node.names)]
    return [name for name in modules if name]


@functools.cache
def _imports(source: bytes, path: str) -> list[ast.Import | ast.ImportFrom]:
    """The imports of a source text, which many closures have in common."""
    imports: list[ast.Import | ast.ImportFrom] = []
    todo: list[ast.AST] = [ast.parse(source, path)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(node)
        # Imports are statements, and most of a file's nodes are expressions.
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            todo += getattr(node, field, ())
    return imports


def literal(path: str | Path, name: str, otherwise: Any) -> Any:
    """The value of a module's top-level `name = <literal>`, with or without an annotation, read without importing it."""
    for node in ast.parse(Path(path).expanduser().read_bytes()).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return ast.literal_eval(node.value)
    return otherwise
