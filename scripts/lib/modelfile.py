"""What a model file says of itself, read without importing it (and so without torch).

The driver checks every model file and its options before any work starts.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FUNCTIONS = ("get_model", "get_dummy_input")
COMMON_OPTIONS = ("dtype", "seed")
"""Options that the pipeline itself applies; a model file need not name them."""


class ModelFileError(ValueError):
    """A model file, or an option set for it, that cannot work; says which and what to do."""


def accepted_options(path: str | Path) -> dict[str, frozenset[str]]:
    """The option names that each of a model file's two functions takes.

    Raises ModelFileError, naming the file, where it is missing, does not parse, lacks one of
    the functions or has a parameter without a default.
    """
    path = Path(path)
    if not path.is_file():
        raise ModelFileError(f"{path}: no such model file; expected a Python file there")
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise ModelFileError(f"{path}: not valid Python ({error})") from error
    found = {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name in FUNCTIONS
    }
    for name in FUNCTIONS:
        if name not in found:
            raise ModelFileError(f"{path}: no function {name}() at the top level; expected both {' and '.join(f'{f}()' for f in FUNCTIONS)}")  # fmt: skip
    return {name: _options(path, node) for name, node in found.items()}


def check_options(path: str | Path, options: Mapping[str, Any]) -> None:
    """Raise ModelFileError for an option that neither the file nor the pipeline knows."""
    accepted = frozenset().union(*accepted_options(path).values()) | set(COMMON_OPTIONS)
    for option in options:
        if option not in accepted:
            near = difflib.get_close_matches(option, sorted(accepted), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ModelFileError(
                f"{path}: takes no option {option!r} (it takes {', '.join(sorted(accepted))}){hint}"
            )


def _options(path: Path, node: ast.FunctionDef) -> frozenset[str]:
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    without_default = positional[: len(positional) - len(arguments.defaults)]
    without_default += [
        a for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None
    ]  # fmt: skip
    if without_default:
        raise ModelFileError(
            f"{path}: {node.name}() has the parameter {without_default[0].arg!r} without a default; "
            "every option of a model file needs one"
        )
    return frozenset(a.arg for a in (*arguments.args, *arguments.kwonlyargs))
