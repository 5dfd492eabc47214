"""Reads what `snakemake profile` wrote about a cell and the other rows of its group."""

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

PROFILES, IREE = "profiles.json", "iree"
"""A file has the profiles of a group: `members`, by the names of their cells, each with its status, and its `profile` or why it has none."""


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
    members = members_beside(root, cell)
    iree = members.get(name, {}).get("profile")
    if not iree:
        raise NoProfile(_why_no_profile(root, cell, members.get(name, {})))
    others, variants, rows = {}, {}, {IREE: name}
    for member, ended in members.items():
        profile = ended.get("profile")
        if not profile or member == name or profile["threads"] != iree["threads"]:
            continue
        if profile["runtime"] == IREE:
            variants[member] = profile
            rows[member] = member
        else:
            baseline = Cell.parse(member, Kind.BASELINE).baseline
            runtime = str(EntryName.read(baseline).without("threads"))
            others[runtime] = profile
            rows[runtime] = member
    timed = members_beside(root, cell, "time", TIMING)
    part = timed.get(str(cell), {}).get("part", 0)
    values_ms = {
        runtime: tuple(timed[row]["values_ms"])
        for runtime, row in rows.items()
        if row in timed and timed[row].get("part", 0) == part
    }
    cpu = str(EntryName("cpu", threads=cell.threads))
    limits = MachineLimits.read(results / "machine_limits" / cpu / machine_limits.FILE)
    code = atomic.read_artifact(
        root / stages.STAGES["read_code"].path(code_cell(cell), "code.json")
    )
    return Profiles(
        cell,
        iree,
        others,
        limits if limits and limits.threads == iree["threads"] else None,
        values_ms,
        {each["name"]: each for each in code.get("functions", ()) if each.get("loop")},
        variants,
    )


def members_beside(
    root: Path, cell: Cell, stage: str = "profile", file: str = PROFILES
) -> dict[str, dict[str, Any]]:
    """What a stage has written of the rows of the group of a cell, by name; {} if it has nothing of that. Raises ValueError for a damaged file."""
    for path in sorted((root / stages.STAGES[stage].path(cell.model)).glob(f"*/{cell.test}/{file}")):  # fmt: skip
        members = atomic.read_artifact(path).get("members", {})
        if str(cell) in members:
            return members
    return {}


def _why_no_profile(root: Path, cell: Cell, ended: Mapping[str, Any]) -> str:
    if ended:
        return f"the profile of {cell} failed: {ended['status']} ({ended['reason']}): {ended['detail']}"
    for status in sorted((root / stages.STAGES["profile"].path(cell.model)).glob(f"*/{cell.test}/{STATUS}")):  # fmt: skip
        device = status.parent.parent.name
        failed = outcome.read_or_damaged(status).status != outcome.OK
        if failed and EntryName.read(device).threads == cell.threads:
            group = Cell.of_kind(Kind.GROUP, model=cell.model, device=device, test=cell.test)
            return why_none(root, cell, group, "profile", "profile")
    return why_none(root, cell, cell, "profile", "profile")


def code_cell(cell: Cell) -> Cell:
    """The cell of the code of an IREE cell."""
    return cell.to(Kind.MODULE).to(Kind.IREE_DUMP)


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
