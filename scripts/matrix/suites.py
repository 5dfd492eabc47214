"""Suites: models named `<suite>/<name>` in the configuration, without a file to write.

A suite is a model file of models/suites/ with an option `name`. Its names are in a data file, because
the driver, which expands globs, does not have its packages. Named lists of models are data files too.
"""

from __future__ import annotations

import difflib
import fnmatch
import functools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path("models/suites")
NAMES = FOLDER / "names"
RENAMED = " -> "
"""Separates an old name from the one that replaced it, in a file of names."""
TORCHBENCH = "torchbench"
"""The suite whose models are in a checkout."""
KERNELS = "kernels"
"""The suite whose entries the feature of this name reads."""
SUITES = ("timm", "hf", "torchvision", TORCHBENCH)
MODELS = "torchbenchmark/models"
"""The folder of a torchbenchmark checkout with one folder per model."""


class SuiteError(ValueError):
    """Errors in the entries of `suites:`, one line each."""


def is_kernel(entry: str | Mapping[str, Any]) -> bool:
    """Whether an entry of `suites:` is of a kernel: `kernels/<name>`."""
    name = entry if isinstance(entry, str) else next(iter(entry))
    return str(name).partition("/")[0] == KERNELS


@dataclass(frozen=True)
class Names:
    """The names of a suite: those that globs can match (`globbed`), and those that match only in full
    (`exact`)."""

    source: str
    globbed: tuple[str, ...]
    exact: frozenset[str]


@dataclass
class Entry:
    """A model of a suite and its options."""

    suite: str
    name: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The entry as written in the configuration."""
        return f"{self.suite}/{self.name}"

    @property
    def cell(self) -> str:
        """The name in files and rows: `timm-resnet18`; a hub id has no owner there."""
        plain = re.sub(r"^[A-Za-z0-9_-]+:(?=.*/)", "", self.name)  # hf-hub:owner/name
        if "/" in plain:
            plain = plain[plain.index("/") + 1 :]
        return re.sub(r"[^A-Za-z0-9._-]+", "-", f"{self.suite}-{plain}").rstrip("-")

    @property
    def file(self) -> str:
        return f"{FOLDER}/{self.suite}.py"


def entries(
    declared: Iterable[str | Mapping[str, Any]], root: Path, checkout: str | None = None
) -> list[Entry]:
    """The models that `suites:` of a configuration names, in order, each once.

    A later mention adds its options to those of an earlier one: a glob, then its exceptions.
    `checkout`: the path of the torchbench suite's code. Raises SuiteError with every problem.
    """
    problems: list[str] = []
    entries: dict[str, Entry] = {}
    for item in declared:
        for pattern, options in ({item: None} if isinstance(item, str) else item).items():
            try:
                for entry in _expanded(str(pattern), options or {}, root, checkout):
                    known = entries.setdefault(entry.where, entry)
                    known.options |= entry.options
            except SuiteError as error:
                problems.append(f"suites.{pattern}: {error}")
    cells: dict[str, str] = {}
    for entry in entries.values():
        other = cells.setdefault(entry.cell, entry.where)
        if other != entry.where:
            problems.append(
                f"suites.{entry.where}: its rows would be named {entry.cell}, as those of {other}; "
                "leave one of them out"
            )
    if problems:
        raise SuiteError("\n".join(problems))
    return list(entries.values())


def _expanded(
    pattern: str, options: dict[str, Any], root: Path, checkout: str | None
) -> Iterator[Entry]:
    """The models of one pattern: those of a list, those of a glob, or the one with that name."""
    if "file" in options:
        raise SuiteError("a model of a suite has no file of its own; that is an entry of models")
    if "default" in options:
        raise SuiteError("a model of a suite has no `default`; leave its name out of `suites`")
    suite, slash, name = pattern.partition("/")
    if not slash:
        chosen = [(model, own | options) for model, own in read_list(pattern, root)]
    elif suite not in SUITES:
        raise SuiteError(_unknown("suite", suite, SUITES, "config.yaml takes"))
    else:
        known = names(suite, root, checkout)
        chosen = [(f"{suite}/{match}", options) for match in _matches(suite, name, known, root)]
    for model, given in chosen:
        suite, _, name = model.partition("/")
        path = {"path": checkout} if suite == TORCHBENCH else {}
        yield Entry(suite, name, path | given)


def _matches(suite: str, name: str, known: Names, root: Path) -> list[str]:
    """The names that a pattern matches. An exact name that no list can contain is returned unchanged."""
    if any(c in name for c in "*?["):
        matches = [n for n in known.globbed if fnmatch.fnmatchcase(n, name)]
        if not matches:
            raise SuiteError(f"matches none of the {len(known.globbed)} names in {known.source}")
        # Tasks have to be named: `hf/bert*` matches only types.
        return matches if ":" in name else [n for n in matches if ":" not in n]
    if name in known.globbed or name in known.exact or _is_elsewhere(suite, name, known):
        return [name]
    # A model of a list was in the package at some time.
    lists = (path.stem for path in (root / FOLDER).glob("*.txt"))
    if any(model == f"{suite}/{name}" for each in lists for model, _ in read_list(each, root)):
        return [name]
    raise SuiteError(_unknown("model", name, {*known.globbed, *known.exact}, known.source))


def _is_elsewhere(suite: str, name: str, known: Names) -> bool:
    """Whether only the package or a hub can know a name."""
    if suite == "timm":
        base = name.partition(".")[0]
        return ":" in name or ("." in name and (base in known.globbed or base in known.exact))
    return suite == "hf" and "/" in name


def names(suite: str, root: Path, checkout: str | None = None) -> Names:
    """The names of a suite. Raises SuiteError if they cannot be read."""
    if suite == TORCHBENCH:
        return _folders(root, checkout)
    return _names(suite, root / NAMES / f"{suite}.txt")


@functools.cache
def _names(suite: str, path: Path) -> Names:
    globbed, exact = [], set()
    for line in _lines(path):
        if suite == "hf":
            name, *tasks = line.split()
            pairs = [task.partition("=") for task in tasks]
            globbed += [name, *(f"{name}:{task}" for task, _, _ in pairs)]
            exact |= {cls for _, _, cls in pairs}
        elif RENAMED in line:
            exact.add(line.partition(RENAMED)[0])
        else:
            globbed.append(line)
    return Names(f"{NAMES / path.name}", tuple(globbed), frozenset(exact))


def _folders(root: Path, checkout: str | None) -> Names:
    if not checkout:
        raise SuiteError("needs the checkout that the models are in; set torchbench.path")
    folder = (root / Path(checkout).expanduser()) / MODELS
    if not os.path.isdir(folder):
        raise SuiteError(
            f"torchbench.path: {checkout} has no folder {MODELS}; expected a checkout of torchbenchmark"
        )
    models = sorted(path.parent.name for path in folder.glob("*/__init__.py"))
    return Names(f"{checkout}/{MODELS}", tuple(models), frozenset())


def read_list(name: str, root: Path) -> list[tuple[str, dict[str, Any]]]:
    """(`<suite>/<name>`, options) of a list, models/suites/<name>.txt: one model per line, with its
    options after it as YAML (`hf/mamba {seq_len: 16}`).

    Raises SuiteError if there is no such list, or if a line is not valid.
    """
    path = root / FOLDER / f"{name}.txt"
    if not os.path.isfile(path):
        there = sorted(p.stem for p in (root / FOLDER).glob("*.txt"))
        raise SuiteError(_unknown("list", name, there, f"{FOLDER} (a model is <suite>/<name>)"))
    listed = []
    for line in _lines(path):
        model, _, text = line.partition(" ")
        options = yaml.safe_load(text) if text.strip() else {}
        if model.partition("/")[0] not in SUITES or not isinstance(options, dict):
            raise SuiteError(
                f"{path.name}: found {line!r}; expected <suite>/<name>, options after it as a mapping"
            )
        listed.append((model, options))
    return listed


def _lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def _unknown(kind: str, name: str, known: Iterable[str], source: str) -> str:
    """Like reading.unknown, for sets of names that are too large to print."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=3)
    if near:
        return f"unknown {kind} {name!r}; did you mean {' or '.join(map(repr, near))}?"
    shown = ", ".join(known) if len(known) <= 10 else f"{len(known)} names"
    return f"unknown {kind} {name!r}; there are: {shown or 'none'} ({source})"
