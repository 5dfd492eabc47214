"""What a feature adds to the core. The core knows features by this declaration alone, and none by its name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from scripts.matrix.cell import Cell, Kind
from scripts.matrix.stage import Stage

if TYPE_CHECKING:
    from scripts.matrix.entries import Model
    from scripts.matrix.matrix import Matrix


@dataclass
class Draft:
    """A checked configuration while it is expanded.

    `selections`: what the command line selects, by kind. `root`: the folder of the Snakefile. Messages about mistakes are
    added to `problems`. `known`: the entries by kind (models, frontends, targets, baselines) and name. `chosen`: those that
    are selected. `named`: models that only parts of features have.
    """

    config: Mapping[str, Any]
    selections: Mapping[str, str]
    root: Path
    problems: list[str] = field(default_factory=list)
    known: dict[str, dict] = field(default_factory=dict)
    chosen: dict[str, dict] = field(default_factory=dict)
    named: dict[str, Model] = field(default_factory=dict)


@dataclass(frozen=True)
class Rows:
    """Rows of a feature's own. `kinds`: the kinds of cell that it has. `owns`: whether a row is one of them. `cells`: all
    cells of one of the kinds. `chain`: the stages of a row, each with its cell. `timed`: the stage that times a row, with
    the cell of its group; None if that is the core's.
    """

    kinds: tuple[Kind, ...]
    owns: Callable[[Cell], bool]
    cells: Callable[[Matrix, Kind], list[Cell]]
    chain: Callable[[Matrix, Cell], list[tuple[Stage, Cell]]]
    timed: Callable[[Matrix, Cell], tuple[Stage, Cell]] | None = None


@dataclass(frozen=True)
class Verb:
    """A verb of `vmfbench`: the module that is imported when it is used, what it does in one line, and the function of the
    module that runs it."""

    name: str
    module: str
    does: str
    function: str = "main"


@dataclass(frozen=True)
class Feature:
    """A feature. What it leaves out changes nothing.

    `part`: the type of its part of a matrix (Matrix.parts). `read`: makes the part from the draft and the matrix of
    models; None: there is none. `absolute`: the part for a run in another folder. `entries`: the frontends, targets and
    baselines of a part, by axis. `rows`: see Rows.
    `models`: further models of a draft, which knows all other entries. `named`: the same for models that only
    the feature's part has, which globs of the configuration may name too. `suite`: the name of a suite that the feature reads
    itself. `extend`: changes the matrix of models. `batch_size`: the one that a model has where its entry sets none; None: that
    of its file. `absolute_model`: a model for a run in another folder.
    `target`: the fields of a Target that the feature sets, for its name, its entry, the configuration and a list of problems.
    `flags`: expands names among flags, for a backend. `reserved`: names that no frontend may have, each with what it is.
    `toolchains`: reads those that are selected (features/toolchains/toolchain_environments.py, selected). `environments`: makes a
    run.environments.Environments for selected toolchains. `maker`: makes a run.plan.Maker for a run.plan.Plan. `plan`:
    makes the object that answers the questions of the feature's rules, PLAN["<name>"], for a Plan.
    `adjust`: the matrix by what is on disk, and messages about that. `problems`: what keeps a matrix from being run.
    `csv`: the name of the CSV that the feature aggregates. `verbs`: those of `vmfbench`. `modules`: what is imported when it is
    asked for, by what it has: `row_set` a ROW_SET that declares the CSV (records/row_set.py), `keep` a function that is called
    with each file of records that is written and the name of its CSV, `views` VIEWS of the report page, `format` a format of
    `vmfbench export`, `docs` PARTS of documentation, `remedies` a function `table`.
    """

    name: str
    part: type | None = None
    read: Callable[[Draft, Matrix], Any] | None = None
    absolute: Callable[[Any, Path], Any] | None = None
    entries: Callable[[Any], Mapping[str, Mapping[str, Any]]] | None = None
    rows: Rows | None = None
    models: Callable[[Draft], Mapping[str, Model]] | None = None
    named: Callable[[Draft], Mapping[str, Model]] | None = None
    suite: str = ""
    extend: Callable[[Draft, Matrix], Matrix] | None = None
    batch_size: Callable[[Model, Path], int | None] | None = None
    absolute_model: Callable[[Model, Path], Model] | None = None
    target: (
        Callable[[str, Mapping[str, Any], Mapping[str, Any], list[str]], Mapping[str, Any]] | None
    ) = None
    flags: Callable[[Sequence[str], str], tuple[str, ...]] | None = None
    reserved: Mapping[str, str] = field(default_factory=dict)
    toolchains: Callable[[Draft], dict[str, Any]] | None = None
    environments: Callable[..., Any] | None = None
    maker: Callable[..., Any] | None = None
    plan: Callable[[Any], Any] | None = None
    adjust: Callable[[Matrix], tuple[Matrix, list[str]]] | None = None
    problems: Callable[[Matrix], list[str]] | None = None
    csv: str = ""
    verbs: tuple[Verb, ...] = ()
    modules: Mapping[str, str] = field(default_factory=dict)


LOADED: dict[str, Feature] = {}
"""The features of this process by name, in order. scripts/features/registry.py fills it in processes of the driver;
that of a stage that runs in an environment has none."""


def hooks(name: str) -> list[Any]:
    """What the features declare under a name of Feature, in order, without those that leave it out."""
    return [hook for declared in LOADED.values() if (hook := getattr(declared, name))]


def rows() -> list[Rows]:
    """The rows of the features that have rows of their own."""
    return hooks("rows")


def modules(kind: str) -> list[ModuleType]:
    """The modules of the features that have this (Feature.modules)."""
    of_features = [declared.modules for declared in LOADED.values()]
    return [importlib.import_module(named[kind]) for named in of_features if kind in named]
