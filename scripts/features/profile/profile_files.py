"""Reads what `snakemake profile` wrote about a cell, and the profiles of eager and inductor beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import atomic, checkout
from scripts.matrix import stages
from scripts.matrix.cell import (
    PINNED,
    TRAIN,
    Cell,
    Kind,
    declared_frontend,
    with_threads,
    without_threads,
    without_toolchain,
)
from scripts.matrix.choices import MODULE_PROFILES
from scripts.matrix.stage import STATUS, TIMING
from scripts.supervise import outcome
from scripts.timing import machine_limits
from scripts.timing.machine_limits import MachineLimits

PROFILE = "profile.json"


class NoProfile(Exception):
    """There is no profile of a cell; says why, and how to make one."""


@dataclass(frozen=True)
class Profiles:
    """The profiles of a cell and of the same model in PyTorch with as many threads, by runtime. `limits`: those of
    the machine; None if they were not measured with as many threads. `values_ms`: the latencies of the cell's row; ()
    if it was not timed."""

    cell: Cell
    iree: Mapping[str, Any]
    torch: Mapping[str, Mapping[str, Any]]
    limits: MachineLimits | None
    values_ms: Sequence[float] = ()


def read(results: Path, name: str) -> Profiles:
    """The profiles of an IREE cell, by its name. Raises NoProfile, and ValueError for other names and for damaged
    files."""
    cell = Cell.parse(name, Kind.IREE)
    root = results.parent
    stage = stages.STAGES["profile_iree"]
    iree = read_json(root / stage.path(cell.to(Kind.IREE_DUMP), PROFILE))
    if not iree:
        raise NoProfile(why_none(root, cell, cell.to(Kind.IREE_DUMP), "profile_iree", "profile"))
    below = root / stages.STAGES["profile_baseline"].path(cell.model)
    torch: dict[str, dict[str, Any]] = {}
    # Baselines are profiled in eval.
    of_test = below.glob(f"*/{cell.test}/{PROFILE}")
    for path in sorted(of_test):
        profile = read_json(path)
        if profile.get("runtime") in MODULE_PROFILES and profile["threads"] == iree["threads"]:
            torch.setdefault(profile["runtime"], profile)
    cpu = with_threads("cpu", cell.threads)
    limits = MachineLimits.read(results / "machine_limits" / cpu / machine_limits.FILE)
    return Profiles(
        cell,
        iree,
        torch,
        limits if limits and limits.threads == iree["threads"] else None,
        _timed(root, cell),
    )


def _timed(root: Path, cell: Cell) -> Sequence[float]:
    """The latencies of a row, by the timing of its group."""
    below = root / stages.STAGES["time"].path(cell.model)
    for path in sorted(below.glob(f"*/{cell.test}/{TIMING}")):
        if member := read_json(path).get("members", {}).get(str(cell)):
            return tuple(member["values_ms"])
    return ()


def read_json(path: Path) -> dict[str, Any]:
    """The JSON of a file; {} if it does not exist or is the empty file of a failed stage."""
    if not path.is_file() or not path.stat().st_size:
        return {}
    return atomic.read_json(path)


def why_none(root: Path, cell: Cell, dump: Cell, stage: str, target: str) -> str:
    """Why a cell has no profile: how its stage ended, or that it never ran. `dump`: the cell of the stage; `target`: of Snakemake."""
    status = root / stages.STAGES[stage].path(dump, STATUS)
    if status.is_file():
        ended = outcome.read_or_damaged(status)
        return f"the profile of {cell} failed: {ended.status} ({ended.reason}): {ended.detail}; log: {ended.log}"
    shared = without_threads(without_toolchain(cell.target))
    chosen = f"models={cell.model} frontends={declared_frontend(cell.frontend)} targets={shared}"
    chosen += f" tests={TRAIN}" if cell.test == TRAIN else ""
    chosen += f" toolchains={cell.toolchain}" if cell.toolchain != PINNED else ""
    return f"{cell} has no profile; make it: {checkout.run_command(target, chosen)}"
