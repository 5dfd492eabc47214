"""What a model file says of itself, read without importing it (and so without torch).

The driver checks every model file and its options before any work starts.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FUNCTIONS = ("get_model", "get_dummy_input")
COMMON_OPTIONS = ("dtype", "seed")
"""Options that the pipeline itself applies; a model file need not name them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What every stage command takes that loads a model."""
    parser.add_argument("--name", required=True)
    parser.add_argument("--model-file", required=True, type=Path)
    parser.add_argument("--options", default="{}", type=json.loads, help="the model's, JSON")


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


def default(path: str | Path, option: str, otherwise: Any) -> Any:
    """The literal default of an option in a model file; `otherwise` where it has none."""
    for node in ast.parse(Path(path).read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.FunctionDef) or node.name not in FUNCTIONS:
            continue
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        pairs = [
            *zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]  # fmt: skip
        for argument, value in pairs:
            if argument.arg == option and isinstance(value, ast.Constant):
                return value.value
    return otherwise


def default_batch_size(path: str | Path) -> int:
    """The batch size of a model file's inputs where no entry sets one; 1 where it names none."""
    value = default(path, "batch_size", 1)
    return value if isinstance(value, int) else 1


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


def literal(path: str | Path, name: str, otherwise: Any) -> Any:
    """The value of a module's top-level `name = <literal>`, read without importing it."""
    for node in ast.parse(Path(path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == name for target in node.targets
        ):
            return ast.literal_eval(node.value)
    return otherwise


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
