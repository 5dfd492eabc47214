"""Cells: what a job of a stage works on. Names, paths, patterns and globs of cells are derived here.

PATTERNS declares the axes of each kind of cell. An entry of the configuration gives several values of an axis, which EntryName
renders and reads:

- Where `measure.threads` is a list, each target and baseline of a CPU has an entry per number, `llvm-cpu+2-threads`. What does not
  depend on threads is shared: references, programs, and the modules that IREE compiles for `llvm-cpu`.
- A toolchain is versions, wheels or local builds of packages, where they differ from those that envs/ pins. For each target whose
  environment it changes there is an entry `llvm-cpu@<toolchain>`, and the same for frontends. What it does not change is shared.
- Where `tests` has `train`, each frontend whose exporter captures training steps has an entry `<frontend>+train`, which exports
  the training step of a model: `bert/torchmlir-torch+train/llvm-cpu`.
- The program of `<frontend>+dynamic` is for all sizes of a model (config/entries.py).
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import Any

from scripts.config.choices import TESTS


class Kind(enum.StrEnum):
    """The kinds of cell. IREE and BASELINE cells are rows. The others are shared by several rows, or are
    the dumps of a row. A MODULE is what IREE compiles: the same for all numbers of threads. A GROUP is the rows that
    are timed in turns: those of one model, device, number of threads and test.

    A cell of one of the kinds BATCH… has many operator problems, and each of them is a row. A BATCH_GROUP is the rows
    of a batch and device, of which those of the same problem are timed in turns.
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


PATTERNS = {
    Kind.ENV: "{env}",
    Kind.DEVICE: "{device}",
    Kind.MODEL: "{model}",
    Kind.PROGRAM: "{model}/{frontend}",
    Kind.MODULE: "{model}/{frontend}/{target}",
    Kind.IREE: "{model}/{frontend}/{target}",
    Kind.IREE_DUMP: "{model}/iree/{frontend}/{target}",  # in the same folder as dumps of baselines
    Kind.TUNING: "{model}/{target}",
    Kind.BASELINE: "{model}/{baseline}/{test}",
    Kind.GROUP: "{model}/{device}/{test}",
    Kind.BATCH: "{batch}",
    Kind.BATCH_PROGRAM: "{batch}/{frontend}",
    Kind.BATCH_IREE: "{batch}/{frontend}/{target}",
    Kind.BATCH_BASELINE: "{batch}/{baseline}",
    Kind.BATCH_GROUP: "{batch}/{device}",
}
"""The names of the cells of each kind. Their axes are the wildcards."""

_NAME = "[^/@]+"
_VARIED = "[^/@]+(?:@[^/@]+)?"
"""A name that may end with `@<toolchain>`."""
CONSTRAINTS = {
    "env": _VARIED,
    "batch": _NAME,
    "model": _NAME,
    "device": _NAME,
    "frontend": _VARIED,
    "target": _VARIED,
    "baseline": _NAME,
    "test": "|".join(TESTS),
}
"""The regular expression of the values of each axis, and of its wildcard."""

COLUMNS = {"frontend": "frontend", "target": "target", "baseline": "target", "test": "test"}
"""The columns of rows that have the values of axes, by axis."""

AXES = {kind: tuple(re.findall(r"\{(\w+)\}", pattern)) for kind, pattern in PATTERNS.items()}
"""The axes of each kind, in their order in names."""

OF_BATCHES = tuple(kind for kind in Kind if "batch" in AXES[kind])
"""The kinds of cell that have operator problems."""

OF_ALL_SIZES = (Kind.PROGRAM, Kind.MODULE)
"""The kinds of cell that sizes of a model share if their frontend is dynamic."""


@functools.cache
def _regex(kind: Kind) -> re.Pattern[str]:
    """The regular expression of the names of the cells of a kind, with a group per axis."""
    return re.compile(
        re.sub(r"\{(\w+)\}", lambda at: f"(?P<{at[1]}>{CONSTRAINTS[at[1]]})", PATTERNS[kind])
    )


def stands_on(kind: Kind, other: Kind) -> bool:
    """Return whether a cell of a kind has all axes of the kind `other`."""
    return {*AXES[other]} <= {*AXES[kind]}


EVAL, TRAIN = "eval", "train"
REFERENCES = {EVAL: "reference", TRAIN: "gradients"}
"""The stage that makes what the programs of a test start from and are compared with."""
PINNED = "pinned"
"""The name of the toolchain that envs/ pins."""

_ENTRY_NAME = re.compile(
    r"(?P<entry>.*?)(?:~(?P<sizes>[^+@]+))?(?P<test>\+train)?(?P<dynamic>\+dynamic)?"
    r"(?:\+(?P<threads>[1-9][0-9]{0,3})-threads)?(?:@(?P<toolchain>.+))?",
    re.DOTALL,
)


@dataclass(frozen=True)
class EntryName:
    """The name of a model, frontend, target, baseline, device or environment, by its parts.

    `entry`: its name in the configuration. `sizes`: those of a model, `16-128`. `test`: that of a frontend. `dynamic`: whether
    the programs of a frontend or baseline are for all sizes of a model. `threads`: of a target, baseline or device, where
    `measure.threads` lists several. `toolchain`: of a frontend, target or environment that it changes.
    """

    entry: str
    sizes: str = ""
    test: str = EVAL
    dynamic: bool = False
    threads: int | None = None
    toolchain: str = PINNED

    def __str__(self) -> str:
        return "".join(
            (
                self.entry,
                f"~{self.sizes}" if self.sizes else "",
                "+train" if self.test == TRAIN else "",
                "+dynamic" if self.dynamic else "",
                f"+{self.threads}-threads" if self.threads else "",
                f"@{self.toolchain}" if self.toolchain != PINNED else "",
            )
        )

    @staticmethod
    @functools.cache
    def read(text: str) -> EntryName:
        """Read a name, or a glob of names. What is no part of a name is the entry's."""
        match = _ENTRY_NAME.fullmatch(text)
        assert match  # any text is a name
        return EntryName(
            match["entry"],
            match["sizes"] or "",
            TRAIN if match["test"] else EVAL,
            bool(match["dynamic"]),
            int(match["threads"]) if match["threads"] else None,
            match["toolchain"] or PINNED,
        )

    def without(self, *parts: str) -> EntryName:
        """The name without some of its parts: without "threads", the name that all numbers of threads share."""
        return replace(self, **{part: _DEFAULTS[part] for part in parts})


_DEFAULTS: dict[str, Any] = {part.name: part.default for part in fields(EntryName)}
_UNNAMED = ("batch", "test")
"""The axes whose values are no names of entries."""


@dataclass(frozen=True)
class Cell:
    """One cell: a value for each axis of its kind, and "" for the others. Values are names as they are printed, such as
    `llvm-cpu+2-threads@iree-3.12`. A cell with a frontend has the test of that, which its name does not repeat."""

    kind: Kind
    env: str = ""
    batch: str = ""
    model: str = ""
    device: str = ""
    frontend: str = ""
    target: str = ""
    baseline: str = ""
    test: str = ""

    @classmethod
    def of_kind(cls, kind: Kind, **values: str) -> Cell:
        """The cell with these values. Raises ValueError for an axis that is missing."""
        try:
            chosen = {axis: values[axis] for axis in AXES[kind]}
        except KeyError as missing:
            raise ValueError(f"a cell of kind {kind} needs a {missing}, found {values}") from None
        if "frontend" in chosen:
            frontend = EntryName.read(chosen["frontend"])
            chosen["test"] = frontend.test
            if kind in OF_ALL_SIZES and frontend.dynamic:
                chosen["model"] = str(EntryName.read(chosen["model"]).without("sizes"))
        return cls(kind, **chosen)

    @classmethod
    def parse(cls, text: str, *kinds: Kind) -> Cell:
        """Parse the name of a cell as the first of `kinds` that fits. Raises ValueError if none does."""
        for kind in kinds:
            if match := _regex(kind).fullmatch(text):
                return cls.of_kind(kind, **match.groupdict())
        expected = " or ".join(PATTERNS[kind] for kind in kinds)
        raise ValueError(f"{text!r} is not the name of a cell; expected {expected}")

    def __str__(self) -> str:
        return self.name

    @functools.cached_property
    def name(self) -> str:
        """The name, as used in rows, globs and folders."""
        return PATTERNS[self.kind].format_map(vars(self))

    @functools.cached_property
    def names(self) -> dict[str, EntryName]:
        """The names of its entries by axis."""
        return {k: EntryName.read(v) for k, v in self.by_axis().items() if k not in _UNNAMED}

    def _part(self, part: str) -> Any:
        """A part of its names; its default if none of them has it."""
        default = _DEFAULTS[part]
        values = (getattr(name, part) for name in reversed(self.names.values()))
        return next((value for value in values if value != default), default)

    @property
    def threads(self) -> int | None:
        """The number of threads that it is of, where `measure.threads` lists several."""
        return self._part("threads")

    @property
    def toolchain(self) -> str:
        """The toolchain that it is of, by its target, frontend or environment."""
        return self._part("toolchain")

    @property
    def dynamic(self) -> bool:
        """Whether its program is for all sizes of a model."""
        return self._part("dynamic")

    def without(self, *parts: str) -> Cell:
        """The cell whose names lack some of their parts (EntryName.without)."""
        names = {axis: str(name.without(*parts)) for axis, name in self.names.items()}
        return Cell.of_kind(self.kind, **self.by_axis() | names)

    def by_axis(self) -> dict[str, str]:
        """Values by the names of axes."""
        return {axis: getattr(self, axis) for axis in AXES[self.kind]}

    def to(self, kind: Kind) -> Cell:
        """The cell of another kind with the same values, for example the program of an IREE cell. A module
        has none of a number of threads. Raises ValueError if this cell lacks an axis of that kind."""
        if kind is self.kind:
            return self
        values = {axis: getattr(self, axis) for axis in AXES[kind]}
        if not all(values.values()):
            lacking = next(axis for axis, value in values.items() if not value)
            raise ValueError(f"a cell of kind {self.kind} is of no {lacking}, which {kind} needs")
        if kind is Kind.MODULE:
            values["target"] = str(self.names["target"].without("threads"))
        return Cell.of_kind(kind, **values)

    @property
    def row(self) -> Cell:
        """The row to which it belongs, if there is exactly one; else itself."""
        return self.to(Kind.IREE) if self.kind is Kind.IREE_DUMP else self

    def columns(self) -> dict[str, str]:
        """The values of the axes that rows have, by column."""
        return {COLUMNS[axis]: value for axis, value in self.by_axis().items() if axis in COLUMNS}


_KINDS = {
    frozenset(axes): kind
    for kind, axes in AXES.items()
    if kind not in (Kind.MODULE, Kind.IREE_DUMP)
}


def of_axes(**values: str) -> Cell:
    """The cell with these axes. A module, an IREE cell and its dumps have the same; this is the IREE cell."""
    return Cell.of_kind(_KINDS[frozenset(values)], **values)


def of_wildcards(wildcards: Any) -> Cell:
    """The cell of a job, from the wildcards of its rule (of_axes)."""
    return _of_items(tuple(wildcards.items()))


@functools.cache  # Snakemake calls several functions for each job
def _of_items(items: tuple[tuple[str, str], ...]) -> Cell:
    return of_axes(**dict(items))


def selects(globs: Iterable[str], *names: str) -> bool:
    """Whether globs select one of the names. `!glob` leaves out what it matches. If there are only such
    globs, everything else is selected."""
    globs = tuple(globs)

    def matched(globs: list[str]) -> bool:
        return any(fnmatchcase(name, glob) for glob in globs for name in names)

    without = [glob[1:] for glob in globs if glob.startswith("!")]
    within = [glob for glob in globs if not glob.startswith("!")] or ["*"]
    return matched(within) and not matched(without)


def thread_numbers(measure: Mapping[str, Any]) -> tuple[int, ...]:
    """The list `threads` of the section `measure`; empty if it is a number or not set."""
    declared = measure.get("threads")
    return tuple(map(int, declared)) if isinstance(declared, list) else ()


def most_threads(measure: Mapping[str, Any]) -> int:
    """The largest number of threads of any measurement; 1 if none is set."""
    return max(thread_numbers(measure), default=measure.get("threads") or 1)


@dataclass(frozen=True)
class Toolchain:
    """What a toolchain changes.

    `packages`: by name (PEP 503) a version, the URL of a wheel, or its absolute path. `builds`: folders of
    trees by project (iree, torch-mlir). `find_links`: pages and folders in which packages are looked up
    besides the index. `envs`: the environments of envs/ that it changes; none for `pinned`.
    """

    name: str
    packages: dict[str, str] = field(default_factory=dict)
    builds: dict[str, str] = field(default_factory=dict)
    find_links: tuple[str, ...] = ()
    envs: tuple[str, ...] = ()

    def of_env(self, env: str) -> str:
        """The name of the environment that it has in place of one of envs/."""
        return str(EntryName(env, toolchain=self.name)) if env in self.envs else env

    def takes(self, *envs: str) -> bool:
        """Whether entries with these environments belong together in this toolchain: each is its own, or shared by it."""
        return all(env == self.of_env(EntryName.read(env).entry) for env in envs)


def pinned_toolchain() -> dict[str, Toolchain]:
    """The toolchains of a run that selects none."""
    return {PINNED: Toolchain(PINNED)}
