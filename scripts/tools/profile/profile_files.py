"""Reads what `snakemake profile` wrote about a cell, and the profiles of eager and inductor beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.config import stages
from scripts.config.cell import PINNED, TRAIN, Cell, EntryName, Kind
from scripts.config.stages import STATUS, TIMING
from scripts.core import atomic, checkout
from scripts.measure.timing import machine_limits, ratios
from scripts.measure.timing.machine_limits import MachineLimits
from scripts.supervise import outcome

PROFILE, IREE = "profile.json", "iree"


class NoProfile(Exception):
    """There is no profile of a cell; says why, and how to make one."""


@dataclass(frozen=True)
class Profiles:
    """The profiles of a cell and of the same model in other runtimes with as many threads, by runtime. `limits`: those of
    the machine; None if they were not measured with as many threads. `values_ms`: by runtime, the latencies of the rows in the
    generations of the cell's group; none of a row that was not timed with it. `code`: what read_code says of IREE's dispatches, by name.
    `variants`: IREE's profiles of the same model by other lowering paths, targets and toolchains, by cell; `values_ms` has their rows too."""

    cell: Cell
    iree: Mapping[str, Any]
    others: Mapping[str, Mapping[str, Any]]
    limits: MachineLimits | None
    values_ms: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    code: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def row_ms(self, runtime: str) -> float | None:
        """The latency of a row, milliseconds; None if it was not timed."""
        values = self.values_ms.get(runtime)
        return math.exp(ratios.log_mean(values)) if values else None


def read(results: Path, name: str) -> Profiles:
    """The profiles of an IREE cell, by its name. Raises NoProfile, and ValueError for other names and for damaged
    files."""
    cell = Cell.parse(name, Kind.IREE)
    root = results.parent
    stage = stages.STAGES["profile_iree"]
    iree = read_json(root / stage.path(cell.to(Kind.IREE_DUMP), PROFILE))
    if not iree:
        raise NoProfile(why_none(root, cell, cell.to(Kind.IREE_DUMP), "profile_iree", "profile"))
    if "rounds_ms" not in iree:
        again = checkout.run_command("profile", options="--forcerun profile_iree profile_baseline")
        raise NoProfile(f"the profile of {cell} is of an older version; make it again: {again}")
    below = root / stages.STAGES["profile_baseline"].path(cell.model)
    others: dict[str, dict[str, Any]] = {}
    rows = {IREE: str(cell)}
    # Baselines are profiled in eval.
    of_test = below.glob(f"*/{cell.test}/{PROFILE}")
    for path in sorted(of_test):
        profile = read_json(path)
        if "rounds_ms" in profile and profile["threads"] == iree["threads"]:
            baseline = path.parent.parent.name
            name = str(EntryName.read(baseline).without("threads"))
            others[name] = profile
            rows[name] = f"{cell.model}/{baseline}/{cell.test}"
    variants = _variants(root / stage.path("."), cell, iree["threads"])
    rows |= {name: name for name in variants}
    cpu = str(EntryName("cpu", threads=cell.threads))
    limits = MachineLimits.read(results / "machine_limits" / cpu / machine_limits.FILE)
    code = read_json(root / stages.STAGES["read_code"].path(code_cell(cell), "code.json"))
    return Profiles(
        cell,
        iree,
        others,
        limits if limits and limits.threads == iree["threads"] else None,
        _timed(root, cell, rows),
        {each["name"]: each for each in code.get("functions", ()) if each.get("loop")},
        variants,
    )


def _variants(below: Path, cell: Cell, threads: int) -> dict[str, dict[str, Any]]:
    """The profiles of the other IREE cells of the model and test of a cell, by name."""
    profiles = {}
    for path in sorted((below / cell.model / IREE).rglob(PROFILE)):
        place = path.parent.relative_to(below).as_posix()
        variant = Cell.parse(place, Kind.IREE_DUMP).row
        profile = read_json(path)
        if variant != cell and variant.test == cell.test and profile.get("threads") == threads and "rounds_ms" in profile:  # fmt: skip
            profiles[str(variant)] = profile
    return profiles


def code_cell(cell: Cell) -> Cell:
    """The cell of the code of an IREE cell."""
    return cell.to(Kind.MODULE).to(Kind.IREE_DUMP)


def _timed(root: Path, cell: Cell, rows: Mapping[str, str]) -> dict[str, tuple[float, ...]]:
    """The latencies of rows, by the timing of the group of a cell. `rows`: their names by runtime."""
    below = root / stages.STAGES["time"].path(cell.model)
    for path in sorted(below.glob(f"*/{cell.test}/{TIMING}")):
        members = read_json(path).get("members", {})
        if str(cell) in members:
            of_part = members[str(cell)].get("part", 0)
            return {
                runtime: tuple(members[name]["values_ms"])
                for runtime, name in rows.items()
                if name in members and members[name].get("part", 0) == of_part
            }
    return {}


def read_json(path: Path) -> dict[str, Any]:
    """The JSON of a file; {} if it does not exist or is the empty file of a failed stage."""
    if not path.is_file() or not path.stat().st_size:
        return {}
    return atomic.read_json(path)


def why_none(
    root: Path, cell: Cell, dump: Cell, stage: str, target: str, what: str = "profile"
) -> str:
    """Why a cell has no profile: the outcome of its stage, or that it never ran. `dump`: the cell of the stage; `target`: of Snakemake; `what`: there is none
    of."""
    status = root / stages.STAGES[stage].path(dump, STATUS)
    if status.is_file():
        ended = outcome.read_or_damaged(status)
        return f"the {what} of {cell} failed: {ended.status} ({ended.reason}): {ended.detail}; log: {ended.log}"
    frontend, device = cell.names["frontend"].entry, cell.names["target"].entry
    chosen = f"models={cell.model} frontends={frontend} targets={device}"
    chosen += f" tests={TRAIN}" if cell.test == TRAIN else ""
    chosen += f" toolchains={cell.toolchain}" if cell.toolchain != PINNED else ""
    return f"{cell} has no {what}; make it: {checkout.run_command(target, chosen)}"
