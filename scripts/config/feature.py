"""What a feature adds to the core. The core knows features by this declaration alone, and none by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.config.cell import Cell, Kind
from scripts.config.stages import Stage

if TYPE_CHECKING:
    from scripts.config.entries import Model
    from scripts.config.rows import Matrix


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
class Feature:
    """A feature that has a part of the matrix, or answers questions of rules. What it leaves out changes nothing.

    `part`: the type of its part of a matrix (Matrix.parts). `read`: makes the part from the draft and the matrix of
    models; None: there is none. `absolute`: the part for a run in another folder. `entries`: the frontends, targets and
    baselines of a part, by axis. `rows`: see Rows. `named`: models that only the feature's part has, which globs of the
    configuration may name too.
    `toolchains`: reads those that are selected (tools/toolchains/toolchain_environments.py, selected). `environments`: makes a
    run.environments.Environments for selected toolchains. `plan`:
    makes the object that answers the questions of the feature's rules, PLAN["<name>"], for a Plan.
    `csv`: the name of the CSV that the feature aggregates. `row_set`: the module with the ROW_SET that declares it
    (results/row_set.py).
    """

    name: str
    part: type | None = None
    read: Callable[[Draft, Matrix], Any] | None = None
    absolute: Callable[[Any, Path], Any] | None = None
    entries: Callable[[Any], Mapping[str, Mapping[str, Any]]] | None = None
    rows: Rows | None = None
    named: Callable[[Draft], Mapping[str, Model]] | None = None
    toolchains: Callable[[Draft], dict[str, Any]] | None = None
    environments: Callable[..., Any] | None = None
    plan: Callable[[Any], Any] | None = None
    csv: str = ""
    row_set: str = ""


LOADED: dict[str, Feature] = {}
"""The features of this process by name, in order. scripts/tools/registry.py fills it in processes of the driver;
that of a stage that runs in an environment has none."""


def hooks(name: str) -> list[Any]:
    """What the features declare under a name of Feature, in order, without those that leave it out."""
    return [hook for declared in LOADED.values() if (hook := getattr(declared, name))]


def rows() -> list[Rows]:
    """The rows of the features that have rows of their own."""
    return hooks("rows")
