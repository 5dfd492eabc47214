"""Pairs of rows of the same cell, before and after; what they were made with, and why their latencies must not be
compared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scripts.matrix.cell import PINNED, EntryName
from scripts.records import remedied, speedups
from scripts.records.results_file import cell_of
from scripts.records.results_table import PACKAGES

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Pair:
    """A cell with its row before and its row after; None where there is none."""

    cell: str
    before: Record | None
    after: Record | None

    @property
    def both(self) -> tuple[Record, Record] | None:
        """Both rows; None if one is missing."""
        return (self.before, self.after) if self.before and self.after else None

    @property
    def measured(self) -> tuple[Record, Record] | None:
        """Both rows of a cell if both have a latency."""
        both = self.both
        return both if both and all(row["latency"] for row in both) else None


def of_files(before: Iterable[Record], after: Iterable[Record]) -> list[Pair]:
    """Return the pairs of two sets of rows, in the order of the rows after; rows that are gone come last."""
    was, now = ({str(cell_of(row)): row for row in rows} for rows in (before, after))
    return [Pair(cell, was.get(cell), now.get(cell)) for cell in dict.fromkeys([*now, *was])]


def of_toolchains(records: Iterable[Record], before: str, after: str) -> list[Pair]:
    """Return the pairs of the rows of two toolchains in one run.

    Rows of baselines are left out, and those that both toolchains share because none changes them. Raises ValueError,
    with the toolchains that there are, if one of the two has no row.
    """
    rows: dict[str, dict[str, Record]] = {}
    for row in records:
        if row["experiment"]["runtime"] == "iree":
            shared = str(cell_of(row).without("toolchain"))
            rows.setdefault(toolchain_of(row), {})[shared] = row
    for name in (before, after):
        if name not in rows:
            known = ", ".join(sorted(rows)) or "none"
            raise ValueError(
                f"no row has the toolchain {name!r}; the toolchains of the rows are: {known}"
            )
    was, now = rows[before], rows[after]
    return [Pair(cell, was[cell], now[cell]) for cell in now if cell in was]


def toolchain_of(record: Record) -> str:
    """Return the name of the toolchain of a record."""
    return record.get("experiment", {}).get("toolchain") or PINNED


def versions_of(record: Record) -> dict[str, str]:
    """Return the versions of a record by package, without builds. That of the frontend has the name of the exporter."""
    exporter = record.get("experiment", {}).get("exporter") or "frontend"
    return {
        exporter if package == "frontend" else PACKAGES.get(package, package): version
        for package, version in record["versions"].items()
        if version and not package.endswith("_build")
    }


def options_of(record: Record) -> dict[str, str | None]:
    """Return the options of a compilation that may differ between rows that are compared."""
    experiment = record["experiment"]
    return {
        "opt level": experiment.get("opt_level"),
        "flags": " ".join(experiment.get("flags") or ()) or None,
        "rewrites": ", ".join((record.get("export") or {}).get("rewrites") or ()) or None,
        OF_CODE: _digests(record).get("code"),
    }


def _digests(record: Record) -> Mapping[str, str]:
    return record["reference"].get("digests") or {}


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return what differs between two mappings: each name with its value before and after, None for none.

    The version of Python differs only if both have it: older records have none.
    """
    values = ((name, before.get(name), after.get(name)) for name in {**before, **after})
    both = ("python", PACKAGES["python"])
    return [
        (name, was, now)
        for name, was, now in values
        if was != now and (name not in both or (was and now))
    ]


OF_CODE = "code of the model"
OF_MODEL = ("bytes of the weights", "weights", OF_CODE)
"""What a change of a model's code changes, which two commits of a project may differ in."""


def difference(before: Record, after: Record, but: Collection[str] = ()) -> str:
    """Return what differs between two rows that would have to be the same, or "". `but`: names of what may differ.

    A value that one of the rows does not have (older records lack some) is not compared.
    """
    for name, was, now in changed(conditions_of(before), conditions_of(after)):
        if was is None or now is None or name in but:
            continue
        parts = changed(was, now) if isinstance(was, Mapping) else [("", was, now)]
        said = [f"{part} {old} before, {new} after".strip() for part, old, new in parts]
        return f"{name}: {', '.join(said)}"
    return ""


def conditions_of(record: Record) -> dict[str, Any]:
    """Return what both rows of a pair must share, by its name."""
    experiment, reference = record["experiment"], record["reference"]
    digests, used = _digests(record), remedied.frontend_used(record)
    return {
        "device": " ".join(map(str, speedups.device_of(record)[:2])),
        "threads": record["run"]["threads"],
        "test": experiment.get("test"),
        "optimizer": experiment.get("optimizer") or None,
        "dtype": experiment.get("dtype"),
        "precision": experiment.get("precision"),
        "matmul precision": experiment.get("matmul_precision"),
        "batch size": experiment.get("batch_size"),
        "options of the model": reference.get("resolved") or record["model"].get("options") or {},
        "bytes of the weights": reference.get("weights_bytes"),
        "weights": digests.get("weights"),
        "inputs": digests.get("inputs"),
        OF_CODE: digests.get("code"),
        "remedy": (record.get("remedy") or {}).get("name") or "none",
        # Without its toolchain.
        "program compiled": str(EntryName.read(used).without("toolchain")) if used else None,
    }
