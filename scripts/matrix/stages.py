"""The stages of the workflow: one entry each, from which params, limits, requests and tables come.

A stage is an entry here, or in the module `stages` of its feature, a rule in workflow/rules/ and a command in scripts/stages/.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from scripts.core import checkout
from scripts.matrix.cell import Cell, Kind
from scripts.matrix.stage import IREE_ENV, REPORT, STATUS, TIMING, VERIFICATION, Need, Stage

# The needs are twice what the stages of the default run and the full-size language models of
# docs/models.md took on two cores (at most: reference 2.6 GB and 109 s for 7.1 GB of weights, export
# 2.8 GB and 61 s for 7.1 GB, compile 2.2 GB, baseline 36 s).
_DECLARED = (
    Stage("env", Kind.ENV, ("scripts.stages.make_env",)),
    Stage(
        "reference",
        Kind.MODEL,
        ("scripts.stages.make_reference",),
        skipped="model",
        forked=True,
        need=Need(3000, 120, 30, "weights"),
    ),
    Stage(
        "gradients",
        Kind.MODEL,
        ("scripts.stages.make_gradients",),
        after="reference",
        limits="reference",
        skipped="training",
        forked=True,
        need=Need(3000, 120, 60, "weights"),
    ),
    Stage(
        "export",
        Kind.PROGRAM,
        ("scripts.stages.export_program", "scripts.exporters.{exporter}"),
        entry="frontend",
        after="reference",
        forked=True,
        need=Need(3000, 120, 20, "exporter"),
        aggregated=(REPORT,),
    ),
    Stage(
        "compile",
        Kind.MODULE,
        ("scripts.stages.compile_iree",),
        env=IREE_ENV,
        after="export",
        skipped="cell",
        forked=True,
        need=Need(3000, 120, 0),
        aggregated=(REPORT,),
    ),
    Stage(
        "verify",
        Kind.IREE,
        ("scripts.stages.verify_iree",),
        env=IREE_ENV,
        after="compile",
        forked=True,
        need=Need(1500, 60, 20, "weights"),
        wants_device=True,
        aggregated=(STATUS, VERIFICATION),
    ),
    Stage(
        "baseline",
        Kind.BASELINE,
        ("scripts.stages.verify_baseline", "scripts.baselines.{runtime}"),
        entry="baseline",
        after="reference",
        skipped="cell",
        forked=True,
        need=Need(3000, 120, 30, "runtime"),
        wants_device=True,
        aggregated=(STATUS, VERIFICATION),
    ),
    Stage(
        "time",
        Kind.GROUP,
        ("scripts.stages.time_group", "scripts.stages.time_module"),
        need=Need(3000, 300, 120, "group", turns=True),
        wants_device=True,
        aggregated=(STATUS, TIMING),
    ),
)


def _all() -> dict[str, Stage]:
    """The stages of the core and of features, by name. One that makes failures good comes after the stage whose they are."""
    declared = list(_DECLARED)
    for file in sorted(checkout.ROOT.glob("scripts/features/*/*_stages.py")):
        module = importlib.import_module(f"scripts.features.{file.parent.name}.{file.stem}")
        for stage in module.STAGES:
            names = [other.name for other in declared]
            at = names.index(stage.remedies) + 1 if stage.remedies else len(declared)
            declared.insert(at, stage)
    return {stage.name: stage for stage in declared}


STAGES = _all()
"""All stages by name, in the order of tables."""

OPTIONAL_LIMITS = {
    stage.limits_key: {"timeout_s": stage.timeout_s} for stage in STAGES.values() if stage.timeout_s
}
"""Entries of `limits` that a configuration may leave out, with their defaults."""

LAST = {
    Kind.IREE: "verify",
    Kind.BASELINE: "baseline",
    Kind.BATCH_IREE: "operator_verify",
    Kind.BATCH_BASELINE: "operator_baseline",
}
"""The last stage of a row's own, by the kind of its cell. Rows are then timed in their group (`time`, `operator_time`)."""


def folders() -> tuple[str, ...]:
    """The folders below results/, in order. They are also the names of stages in status files."""
    return tuple(dict.fromkeys(stage.folder for stage in STAGES.values()))


def limits() -> tuple[str, ...]:
    """The keys of the configuration's `limits`."""
    return tuple(dict.fromkeys(stage.limits_key for stage in STAGES.values()))


def wants_device(folder: str) -> bool:
    """Whether a stage, by its name in status files, depends on devices of the machine."""
    return any(stage.wants_device for stage in STAGES.values() if stage.folder == folder)


def status_path(folder: str, cell: object) -> str:
    """The path of the status file of a stage and a cell, by their names in status files."""
    return f"results/{folder}/{cell}/{STATUS}"


def before(last: str) -> list[Stage]:
    """The stages of a chain up to the stage `last`, in order."""
    stages = [STAGES[last]]
    while stages[-1].after:
        stages.append(STAGES[stages[-1].after])
    return stages[::-1]


def chain(last: str, cell: Cell) -> list[tuple[Stage, Cell]]:
    """The stages that a stage comes after, the first one first, and the stage itself; each with the cell on which `cell` depends."""
    return [(stage, cell.to(stage.kind)) for stage in before(last)]


def of_row(row: Cell) -> list[tuple[Stage, Cell]]:
    """The chain of a row."""
    return chain(LAST[row.kind], row)


def made_good_by(folder: str) -> Stage | None:
    """The stage whose failures another one, by its name in status files, tries to make good; None for other stages."""
    tried = next((stage for stage in STAGES.values() if stage.folder == folder), None)
    return STAGES[tried.remedies] if tried and tried.remedies else None


def remedied(entries: Iterable[tuple[Stage, Cell]]) -> list[tuple[Stage, Cell]]:
    """A chain in which the stages that a remedy has made good are replaced by those that did so."""
    instead = {stage.remedies: stage for stage in STAGES.values() if stage.remedies}
    return [(instead.get(stage.name, stage), cell) for stage, cell in entries]
