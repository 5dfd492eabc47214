"""Merge configuration files: a later file adds, changes or leaves out entries of earlier ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from scripts.matrix.reading import ConfigError

ENTRIES = ("models", "frontends", "targets", "baselines")
"""Keys whose entries a later file may leave out of runs that do not select them by name."""
PATHS = (
    ("models", "*", "file"),
    ("toolchains", "*", "iree"),
    ("toolchains", "*", "torch-mlir"),
    ("toolchains", "*", "find_links"),
    ("toolchains", "*", "packages", "*"),
    ("operators", "dataset"),
    ("operators", "mapping"),
    ("operators", "traces"),
    ("torchbench", "file"),
    ("torchbench", "path"),
)
"""The keys of values, or of lists of values, that may be paths."""


def merge(into: dict[str, Any], new: Mapping[str, Any], shipped: Iterable[str] = ()) -> None:
    """Merge the configuration `new` into `into`: mappings are merged, other values are replaced.

    If an entry of ENTRIES is null, it is left out: it gets `default: false`. Its key may be a glob,
    which leaves out all matching entries of `into` that `new` does not set. In `expect`, null
    removes a pattern. In `train`, another optimizer leaves out the arguments of the one before, but for the
    learning rate. `shipped`: names of models that have a file and need no entry. Raises
    ConfigError if a null matches no entry.
    """
    expanded = dict(new)
    for kind in ENTRIES:
        if isinstance(new.get(kind), Mapping):
            known = [*(into.get(kind) or ()), *(shipped if kind == "models" else ())]
            expanded[kind] = _with_defaults(kind, new[kind], known)
    if isinstance(expect := new.get("expect"), Mapping):
        expanded["expect"] = {p: wanted for p, wanted in expect.items() if wanted is not None}
        if isinstance(before := into.get("expect"), dict):
            into["expect"] = {p: w for p, w in before.items() if expect.get(p, w) is not None}
    names = {_name(one.get("train")) for one in (into, new)} - {None}
    if len(names) == 2:
        into["train"] = {key: value for key, value in into["train"].items() if key == "lr"}
    _merge(into, expanded)


def _name(train: Any) -> Any:
    """The name of the optimizer of an entry `train`; None if it has none."""
    return train.get("name") if isinstance(train, Mapping) else None


def _with_defaults(kind: str, entries: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Replace null by `default: false`, under each of the `known` names that its key matches."""
    known = list(dict.fromkeys(map(str, known)))
    set_here = {name: entry for name, entry in entries.items() if entry is not None}
    left_out: dict[str, Any] = {}
    for pattern in (str(name) for name, entry in entries.items() if entry is None):
        found = [name for name in known if fnmatchcase(name, pattern)]
        if not found:
            raise ConfigError(
                f"{kind}.{pattern}: found null, which leaves out what an earlier file has; there are: "
                f"{', '.join(sorted(known)) or 'none'}"
            )
        left_out |= {name: {"default": False} for name in found}
    return left_out | set_here


def _merge(into: dict, new: Mapping[str, Any]) -> None:
    """Merge as Snakemake does: mappings are merged key by key, other values are replaced."""
    for key, value in new.items():
        if isinstance(value, Mapping):
            # Use a new mapping, because a YAML alias is one object at several keys.
            inside = into[key] if isinstance(into.get(key), dict) else {}
            into[key] = inside
            _merge(inside, value)
        else:
            into[key] = value


def located(content: Mapping[str, Any], folder: Path, root: Path) -> dict[str, Any]:
    """Return a configuration whose paths are valid from the folder `root` of the Snakefile.

    `folder` contains the configuration file. A relative path is relative to `folder` if that file
    exists, else to `root`.
    """

    def absolute(value: Any, place: tuple[str, ...]) -> Any:
        if isinstance(value, Mapping):
            return {key: absolute(inner, (*place, key)) for key, inner in value.items()}
        if isinstance(value, list):
            return [absolute(item, place) for item in value]
        is_path = isinstance(value, str) and any(
            len(path) == len(place) and all(a in ("*", b) for a, b in zip(path, place, strict=True))
            for path in PATHS
        )
        return str(folder / value) if is_path and (folder / value).exists() else value

    if folder.resolve() == root.resolve():
        return dict(content)
    return absolute(content, ())
