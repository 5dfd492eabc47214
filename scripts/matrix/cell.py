"""Cells: what a job of a stage works on. Names, paths, patterns and globs of cells are derived here.

AXES is the one place where an axis is declared.
"""

from __future__ import annotations

import argparse
import enum
import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from scripts.matrix import threads
from scripts.matrix.precision import TESTS


class Kind(enum.StrEnum):
    """The kinds of cell. IREE and BASELINE cells are rows. The others are shared by several rows, or are
    the dumps of a row. A MODULE is what IREE compiles: the same for all numbers of threads. A GROUP is the rows that are
    timed in turns: those of one model, device, number of threads and test.

    A cell of one of the kinds BATCH… has many operator problems, and each of them is a row. A BATCH_GROUP is the rows of a
    batch and device, of which those of the same problem are timed in turns.
    """

    ENV = "env"
    DEVICE = "device"
    MODEL = "model"
    PROGRAM = "program"
    MODULE = "module"
    IREE = "iree"
    IREE_DUMP = "iree-dump"
    TUNING = "tuning"
    BASELINE = "baseline"
    GROUP = "group"
    BATCH = "batch"
    BATCH_PROGRAM = "batch-program"
    BATCH_IREE = "batch-iree"
    BATCH_BASELINE = "batch-baseline"
    BATCH_GROUP = "batch-group"


OF_BATCHES = (
    *(Kind.BATCH, Kind.BATCH_PROGRAM, Kind.BATCH_IREE, Kind.BATCH_BASELINE),
    Kind.BATCH_GROUP,
)
"""The kinds of cell that have operator problems."""


@dataclass(frozen=True)
class Axis:
    """One axis of the cells of `kinds`. `name` is also the name of its wildcard.

    `values`: the possible values; empty if any name is possible. An axis with a single value is not a
    wildcard: its value is part of every name. `varied`: whether a value may end with `@<toolchain>`
    (matrix/toolchains.py). `column`: the column of rows that has it.
    """

    name: str
    kinds: tuple[Kind, ...]
    values: tuple[str, ...] = ()
    varied: bool = False
    column: str = ""

    @property
    def is_fixed(self) -> bool:
        """Whether each cell of its kinds has the same value."""
        return len(self.values) == 1

    @property
    def constraint(self) -> str:
        """The regular expression of a value, and of its wildcard."""
        if self.values:
            return "|".join(map(re.escape, self.values))
        return "[^/@]+(?:@[^/@]+)?" if self.varied else "[^/@]+"


AXES = (
    Axis("env", (Kind.ENV,), varied=True),
    Axis("batch", OF_BATCHES),
    Axis(
        "model",
        (
            *(Kind.MODEL, Kind.PROGRAM, Kind.MODULE, Kind.IREE, Kind.IREE_DUMP),
            *(Kind.TUNING, Kind.BASELINE, Kind.GROUP),
        ),
    ),
    Axis("device", (Kind.DEVICE, Kind.GROUP, Kind.BATCH_GROUP)),
    Axis(
        "runtime", (Kind.IREE_DUMP,), values=("iree",)
    ),  # in the same folder as dumps of baselines
    Axis(
        "frontend",
        (
            *(Kind.PROGRAM, Kind.MODULE, Kind.IREE, Kind.IREE_DUMP),
            *(Kind.BATCH_PROGRAM, Kind.BATCH_IREE),
        ),
        varied=True,
        column="frontend",
    ),
    Axis(
        "target",
        (Kind.MODULE, Kind.IREE, Kind.IREE_DUMP, Kind.TUNING, Kind.BATCH_IREE),
        varied=True,
        column="target",
    ),
    Axis("baseline", (Kind.BASELINE, Kind.BATCH_BASELINE), column="target"),
    Axis("test", (Kind.BASELINE, Kind.GROUP), values=TESTS, column="test"),
)
"""All axes, in their order in names."""


@dataclass(frozen=True)
class Shape:
    """How the cells of a kind are named; `pattern` has one wildcard per axis."""

    axes: tuple[Axis, ...]
    pattern: str
    regex: re.Pattern

    @property
    def wildcards(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self.axes if not axis.is_fixed)


@functools.cache
def shape(kind: Kind) -> Shape:
    """How the cells of a kind are named."""
    axes = tuple(axis for axis in AXES if kind in axis.kinds)
    pattern, regex = "", ""
    for axis in axes:
        slash = "/" if pattern else ""
        if axis.is_fixed:
            pattern += slash + axis.values[0]
            regex += slash + re.escape(axis.values[0])
        else:
            pattern += f"{slash}{{{axis.name}}}"
            regex += f"{slash}(?P<{axis.name}>{axis.constraint})"
    return Shape(axes, pattern, re.compile(regex))


def stands_on(kind: Kind, other: Kind) -> bool:
    """Return whether a cell of a kind has all axes of the kind `other`."""
    return {axis.name for axis in shape(other).axes} <= {axis.name for axis in shape(kind).axes}


def constraints() -> dict[str, str]:
    """The regular expression of every wildcard, by its name."""
    return {axis.name: axis.constraint for axis in AXES if not axis.is_fixed}


def name(kind: Kind, wildcards: object) -> str:
    """The name of the cell for the wildcards of a rule."""
    named = shape(kind)
    return named.pattern.format(**{one: getattr(wildcards, one) for one in named.wildcards})


@dataclass(frozen=True)
class Cell:
    """One cell: a value for each axis of its kind, in the order of AXES."""

    kind: Kind
    values: tuple[str, ...]

    @classmethod
    def of(cls, kind: Kind, **values: str) -> Cell:
        """The cell with these values; an axis with one value may be left out.

        Raises ValueError for an axis that is missing.
        """
        try:
            return cls(kind, tuple(_value(axis, values) for axis in shape(kind).axes))
        except KeyError as missing:
            raise ValueError(f"a cell of kind {kind} needs a {missing}, found {values}") from None

    @classmethod
    def parse(cls, text: str, *kinds: Kind) -> Cell:
        """Parse the name of a cell as the first of `kinds` that fits. Raises ValueError if none does."""
        for kind in kinds:
            if found := shape(kind).regex.fullmatch(text):
                return cls.of(kind, **found.groupdict())
        expected = " or ".join(shape(kind).pattern for kind in kinds)
        raise ValueError(f"{text!r} is not the name of a cell; expected {expected}")

    def __str__(self) -> str:
        return self.name

    @functools.cached_property
    def name(self) -> str:
        """The name, as used in rows, globs and folders."""
        return "/".join(self.values)

    def __getitem__(self, axis: str) -> str:
        """The value of an axis, by its name."""
        return self.by_axis()[axis]

    def by_axis(self) -> dict[str, str]:
        """Values by the names of axes."""
        return {a.name: v for a, v in zip(shape(self.kind).axes, self.values, strict=True)}

    def to(self, kind: Kind) -> Cell:
        """The cell of another kind with the same values, for example the program of an IREE cell. A module
        has none of a number of threads. Raises ValueError if this cell lacks an axis of that kind."""
        axes = _shared(self.kind, kind)
        values = (self.values[at] if at is not None else given for at, given in axes)
        return Cell(kind, tuple(map(threads.shared, values) if kind is Kind.MODULE else values))

    @property
    def row(self) -> Cell:
        """The row to which it belongs, if there is exactly one; else itself."""
        return self.to(Kind.IREE) if self.kind is Kind.IREE_DUMP else self

    def columns(self) -> dict[str, str]:
        """The values of the axes that rows have, by column."""
        axes = shape(self.kind).axes
        return {a.column: v for a, v in zip(axes, self.values, strict=True) if a.column}


@functools.cache
def _shared(kind: Kind, other: Kind) -> tuple[tuple[int | None, str], ...]:
    """For each axis of the kind `other`: the position of its value in a cell of `kind`, or the value."""
    places = {axis.name: place for place, axis in enumerate(shape(kind).axes)}
    found: list[tuple[int | None, str]] = []
    for axis in shape(other).axes:
        if axis.name in places:
            found.append((places[axis.name], ""))
        elif axis.is_fixed:
            found.append((None, _value(axis, {})))
        else:
            raise ValueError(f"a cell of kind {kind} is of no {axis.name}, which {other} needs")
    return tuple(found)


def _value(axis: Axis, values: Mapping[str, str]) -> str:
    if axis.is_fixed:
        return axis.values[0]
    return values[axis.name]


def of_columns(kind: Kind, model: str, columns: Mapping[str, Any]) -> Cell:
    """The cell of a row, from its columns."""
    values = {a.name: columns.get(a.column) for a in shape(kind).axes if a.column}
    return Cell.of(kind, model=model, **{k: v for k, v in values.items() if v is not None})


def selects(globs: Iterable[str], *names: str) -> bool:
    """Whether globs select one of the names. `!glob` leaves out what it matches. If there are only such
    globs, everything else is selected."""
    globs = tuple(globs)

    def matched(found: list[str]) -> bool:
        return any(fnmatchcase(name, glob) for glob in found for name in names)

    without = [glob[1:] for glob in globs if glob.startswith("!")]
    within = [glob for glob in globs if not glob.startswith("!")] or ["*"]
    return matched(within) and not matched(without)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option `--cell`, for commands that select cells. Its value is an argument of `selects`."""
    parser.add_argument(
        "--cell",
        action="append",
        default=[],
        metavar="GLOB",
        help="only cells whose name matches, such as 'resnet/*/vulkan'; may be repeated;"
        " '!GLOB' leaves cells out",
    )
