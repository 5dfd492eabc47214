"""Short forms on the command line: `file=` (only these model files) and `quick=` (a fast run)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.matrix.reading import ConfigError
from scripts.torch_model import source

QUICK_MEASURE = {"budget_s": 3, "generations": 4}
"""Values of `measure:` that `quick=true` sets, unless the command line sets them."""
QUICK_BACKEND = "llvm-cpu"
QUICK_RUNTIME = {"runtime": "eager", "device": "cpu"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def add_files(declared: dict[str, Any], paths: str, root: Path, typed_in: Path) -> list[str]:
    """Declare a model for each file of a comma-separated list, and return the names of the models.

    A model has the name of its file. A relative path is relative to `typed_in`; `root` is the
    folder of the Snakefile. If the file is a model already, its options are kept. Raises
    ConfigError with all files that are missing, whose names are not valid, or whose names other
    models have.
    """
    models = declared["models"] = dict(declared.get("models") or {})
    shipped = source.shipped(root)
    names: list[str] = []
    problems: list[str] = []
    for path in filter(None, (part.strip() for part in paths.split(","))):
        file = Path(os.path.abspath(typed_in / Path(path).expanduser()))
        name = file.stem
        entry = dict(models.get(name) or {})
        other = root / Path(entry.get("file", shipped.get(name, file))).expanduser()
        if problem := _problem(file, name, other):
            problems.append(f"file={path}: {problem}")
        names.append(name)
        if name not in shipped:
            models[name] = entry | {"file": str(file)}
    if problems:
        raise ConfigError("\n".join(problems))
    return list(dict.fromkeys(names))


def _problem(file: Path, name: str, other: Path) -> str:
    """Return why a file cannot be the model `name`, whose present file is `other`; "" if it can."""
    if file.is_dir():
        return f"{file} is a folder; expected a Python file with get_model() and get_dummy_input()"
    if not file.is_file():
        return f"no file {file}; expected a Python file with get_model() and get_dummy_input()"
    if not _NAME.fullmatch(name):
        return (
            f"the model would be named {name!r}; expected letters, digits, '.', '_' and '-': rename "
            f"the file, or name its model: {_named('mine', file)}"
        )
    if not (other.exists() and other.samefile(file)):
        return (
            f"{name} is the model of {other}, and its results would be replaced; rename the file, or "
            f"name its model: {_named(f'my-{name}', file)}"
        )
    return ""


def _named(name: str, file: Path) -> str:
    """Return the options that measure a file alone under another name."""
    return f"--config models='{{{name}: {{file: {file}}}}}' filter='^{name}$'"


def quick_selections(declared: Mapping[str, Any]) -> dict[str, str]:
    """Return the selections of a quick run, as comma-separated lists.

    These are the CPU targets and PyTorch's eager mode. `declared`: a checked configuration. Raises
    ConfigError if there is no such target.
    """
    targets = _by_default(declared["targets"], {"backend": QUICK_BACKEND})
    if not targets:
        raise ConfigError(
            f"quick: found no target of backend {QUICK_BACKEND} that is in runs by default; name the "
            "targets: targets=…"
        )
    eager = _by_default(declared["baselines"], QUICK_RUNTIME)
    return {"targets": ",".join(targets)} | ({"baselines": ",".join(eager)} if eager else {})


def _by_default(entries: Mapping[str, Mapping], wanted: Mapping[str, str]) -> list[str]:
    """Return the names of the entries that are in runs by default and have these values."""
    return [
        name
        for name, entry in entries.items()
        if entry.get("default", True) and wanted.items() <= entry.items()
    ]
