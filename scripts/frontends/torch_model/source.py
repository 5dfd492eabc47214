"""Reads the functions and options of a model file without importing it, and so without torch.

The driver checks every model file and its options before any work starts.
"""

from __future__ import annotations

import ast
import difflib
import functools
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import checkout, python_source
from scripts.frontends.torch_model.errors import BrokenModelFile, ModelFileError

ROOT = checkout.ROOT

FUNCTIONS = ("get_model", "get_dummy_input")
DYNAMIC_FUNCTION = "dynamic_shapes"
"""The function of a model file that names the dimensions of arguments that its options set."""
OPTIONAL_FUNCTIONS = ("get_float_model", "describe_inputs", DYNAMIC_FUNCTION)
"""Functions that a model file may have: the float model of a quantised one, a line about inputs, dimensions."""
MODEL_PARAMETER = "model"
"""What get_model() returned, for every other function with a parameter of this name."""
COMMON_OPTIONS = ("dtype", "seed")
"""Options that the pipeline applies itself. A model file does not need parameters for them."""


@dataclass(frozen=True)
class Function:
    """The parameters of a model file's function: named options, any option (`**options`), the model."""

    options: frozenset[str]
    takes_any: bool = False
    takes_model: bool = False


def shipped(root: Path) -> dict[str, Path]:
    """Return the model files of the project at `root`, in order, by the names of their models."""
    files = sorted((root / "models").absolute().glob("*.py"))
    return {file.stem: file for file in files if file.stem[0] != "_"}


def functions(path: str | Path) -> dict[str, Function]:
    """Return the parameters of a model file's functions, both the required and the optional ones.

    Raises ModelFileError, with the name of the file, if it is missing or has no Python file name,
    and BrokenModelFile if it cannot be parsed, lacks a required function, or has a parameter that
    no option can set.
    """
    path = Path(path).expanduser()
    statements: dict[str, ast.stmt] = {}
    for node in _parsed(path).body:
        for name in _bound(node):
            statements[name] = node
    for name in FUNCTIONS:
        if name not in statements:
            near = difflib.get_close_matches(name, sorted(statements), n=1)
            hint = f"; did you mean {near[0]!r}? rename it to {name}" if near else ""
            raise BrokenModelFile(
                f"{path}: no function {name}() at the top level; expected both "
                f"{' and '.join(f'{f}()' for f in FUNCTIONS)}{hint}"
            )
    known = {
        name: statements[name] for name in (*FUNCTIONS, *OPTIONAL_FUNCTIONS) if name in statements
    }
    return {name: _function(path, name, node) for name, node in known.items()}


def chosen_options(function: Function, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `options` that a function is called with.

    These are the options that it names, or, with `**options`, all except those of the pipeline.
    """
    return {
        option: value
        for option, value in options.items()
        if option in function.options or (function.takes_any and option not in COMMON_OPTIONS)
    }


def own_imports(path: str | Path, root: Path = ROOT) -> list[Path]:
    """Return the files that a model file imports, directly or not, sorted.

    These are modules of `models.*` in the project at `root`, and modules in the folder of the file.
    Raises BrokenModelFile if one of them cannot be parsed.
    """
    path = Path(path).expanduser()
    _parsed(path)  # raises an error about the file itself
    try:
        beside = python_source.closure(python_source.names(path, ""), path.parent)
        wanted = [name for file in (path, *beside) for name in python_source.names(file, "")]
        shared = python_source.closure(filter(_is_shared, wanted), root, _is_shared)
    except (SyntaxError, ValueError) as error:
        raise BrokenModelFile(f"{path}: a module that it imports is not valid Python ({error})") from error  # fmt: skip
    return sorted((beside | shared) - {path})


def code_digest(path: str | Path) -> str:
    """Return a hash of the code of a model file and of the files of `own_imports`, which comments and the
    layout of lines do not change. Raises ModelFileError."""
    path = Path(path).expanduser()
    trees = [_parsed(file) for file in (path, *own_imports(path))]
    text = "\0".join(ast.dump(tree) for tree in trees)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _is_shared(module: str) -> bool:
    return module.split(".")[0] == "models"


def default_batch_size(path: str | Path) -> int:
    """The batch size of a model file's inputs where no entry sets one; 1 where it names none.

    A default may be the name of a number that the file assigns at its top level. Raises
    ModelFileError for any other: rows count samples and tokens by it.
    """
    path = Path(path).expanduser()
    body = _parsed(path).body
    takers = [n for n in body if isinstance(n, ast.FunctionDef) and n.name in FUNCTIONS]
    given = (_defaults(node.args).get("batch_size") for node in takers)
    if (written := next(filter(None, given), None)) is None:
        return 1
    value = written
    if isinstance(written, ast.Name):
        assigned = [
            node.value
            for node in body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            and node.value
            and written.id in _bound(node)
        ]
        if len(assigned) == 1:
            value = assigned[0]
    if isinstance(value, ast.Constant) and type(value.value) is int:
        return value.value
    raise ModelFileError(
        f"{path}: the default of batch_size is `{ast.unparse(written)}`, which cannot be read without "
        "running the file; write a number, or set batch_size in the model's entry"
    )


def check_options(path: str | Path, options: Mapping[str, Any]) -> None:
    """Raise ModelFileError for an option that neither the file nor the pipeline has."""
    known = functions(path).values()
    if any(function.takes_any for function in known):
        return
    accepted = frozenset(COMMON_OPTIONS).union(*(function.options for function in known))
    refuse_options(path, options, sorted(accepted))


def refuse_options(
    path: str | Path, options: Mapping[str, Any], known: Sequence[str], note: str = ""
) -> None:
    """Raise ModelFileError for an option that is none of `known`. `note`: the end of the message."""
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ModelFileError(f"{path}: takes no option {option!r} (it takes {', '.join(known)}){hint}{note}")  # fmt: skip


def _parsed(path: Path) -> ast.Module:
    if os.path.isdir(path):
        raise ModelFileError(f"{path}: is a folder; expected a Python file there")
    if not os.path.isfile(path):
        raise ModelFileError(f"{path}: no such model file; expected a Python file there")
    if path.suffix != ".py":
        raise ModelFileError(
            f"{path}: its name does not end in .py, which its import needs; rename it"
        )
    try:
        return _tree(path.read_bytes(), path.name)
    except OSError as error:
        raise BrokenModelFile(f"{path}: cannot be read ({error.strerror})") from error
    except (SyntaxError, ValueError) as error:
        raise BrokenModelFile(f"{path}: not valid Python ({error})") from error


@functools.lru_cache(maxsize=16)
def _tree(text: bytes, name: str) -> ast.Module:
    """Parse a file once, for all questions about it and for all models that use it."""
    return ast.parse(text, name)


def _bound(node: ast.stmt) -> list[str]:
    """The names that a statement of a module's top level gives something to."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Import() | ast.ImportFrom():
            return [alias.asname or alias.name for alias in node.names]
        case ast.Assign():
            return [target.id for target in node.targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


_OTHER_THAN_DEF = {
    ast.AsyncFunctionDef: "an async def",
    ast.ClassDef: "a class",
    ast.Import: "imported",
    ast.ImportFrom: "imported",
    ast.Assign: "assigned",
    ast.AnnAssign: "assigned",
}


def _function(path: Path, name: str, node: ast.stmt) -> Function:
    """What a function takes, given its definition; raises BrokenModelFile where it is none."""
    if not isinstance(node, ast.FunctionDef):
        raise BrokenModelFile(
            f"{path}: {name} is {_OTHER_THAN_DEF[type(node)]} on line {node.lineno}; expected "
            f"`def {name}(...)` at the top level, as its options are read without running the file"
        )
    arguments = node.args
    if arguments.posonlyargs:
        raise BrokenModelFile(
            f"{path}: {name}() has the positional-only parameter {arguments.posonlyargs[0].arg!r}; "
            "options are given by name: take the '/' away"
        )
    defaults = _defaults(arguments)
    takes_model = MODEL_PARAMETER in defaults
    if takes_model and name == "get_model":
        raise BrokenModelFile(
            f"{path}: get_model() has the parameter 'model', which is what get_model() returned in "
            "the file's other functions; give the option another name"
        )
    for parameter, default in defaults.items():
        if default is None and parameter != MODEL_PARAMETER:
            raise BrokenModelFile(
                f"{path}: {name}() has the parameter {parameter!r} without a default; every option "
                "of a model file needs one"
            )
    options = frozenset(defaults) - {MODEL_PARAMETER}
    return Function(options, arguments.kwarg is not None, takes_model)


def _defaults(arguments: ast.arguments) -> dict[str, ast.expr | None]:
    """The default of each named parameter, as it is written; None for those without one."""
    positional = [*arguments.posonlyargs, *arguments.args]
    without = [None] * (len(positional) - len(arguments.defaults))
    names = [argument.arg for argument in (*positional, *arguments.kwonlyargs)]
    return dict(zip(names, (*without, *arguments.defaults, *arguments.kw_defaults), strict=True))
