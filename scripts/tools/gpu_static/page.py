"""What `vmfbench why` prints of a cell of a GPU: its dispatches by the time that they need at least, and what their code needs of the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.config import stages
from scripts.config.cell import Cell, Kind
from scripts.config.stages import REPORT, STATUS
from scripts.core import atomic, checkout, requests
from scripts.iree.backends import BACKENDS
from scripts.results import wording
from scripts.results.page_sections import Section, as_text
from scripts.results.wording import milliseconds
from scripts.supervise import outcome
from scripts.tools.gpu_static.devices import DEVICES, MATRIX, VECTOR
from scripts.tools.gpu_static.facts import DISPATCHES

SHOWN = 0.01
"""Dispatches with a smaller share of the bound are not shown."""
WIDTH = 10_000
"""Characters of a line."""
UNKNOWN = "?"
"""What no compiler has said."""


@dataclass(frozen=True)
class Described:
    """A cell of a GPU. `report`: that of its compilation, or of the remedy that compiled it."""

    cell: Cell
    report: Mapping[str, Any]


def read(results: Path, name: str) -> Described | None:
    """The dispatches of a cell, by its name; None of a CPU. Raises ValueError, which says why, if there is nothing about
    it, and for other names and damaged files."""
    cell = Cell.parse(name, Kind.IREE)
    module, root = cell.to(Kind.MODULE), results.parent
    compiled, remedied = (root / stages.STAGES[name].path(module) for name in ("compile", "remedy"))
    report = _read(remedied / REPORT).get("compile") or _read(compiled / REPORT)
    if DISPATCHES in report:
        return Described(cell, report)
    if not (compiled / requests.FILE).is_file():
        return None
    if BACKENDS[requests.read(compiled).fields["backend"]].device_kind == "cpu":
        return None
    ended = outcome.read_or_damaged(compiled / STATUS)
    if ended.status != outcome.OK:
        raise ValueError(f"{cell} does not compile: {ended.status} ({ended.reason}): {ended.detail}; log: {ended.log}")  # fmt: skip
    again = checkout.run_command("results/latency.csv", f"models={cell.model}", "--forcerun compile_iree")  # fmt: skip
    raise ValueError(f"the compilation of {cell} does not describe its dispatches (an older version, or its log says why); make it again: {again}")  # fmt: skip


def _read(path: Path) -> dict[str, Any]:
    """The JSON of a report; {} if there is none, or the empty one of a failed stage."""
    return atomic.read_json(path) if path.is_file() and path.stat().st_size else {}


def page(described: Described) -> str:
    """The page of a cell."""
    report = described.report
    every = sorted(report[DISPATCHES], key=lambda each: -_bound(each))
    whole = sum(map(_bound, every))
    shown = [each for each in every if not whole or _bound(each) >= SHOWN * whole]
    head = [f"{described.cell} on {report.get('static_device', 'a device without figures')}: from the compiled code; nothing ran here", _summary(report)]  # fmt: skip
    table = Section("", HEAD, [_row(each, whole) for each in shown], range(13))
    left = len(every) - len(shown)
    rest = [Section("", lines=[f"{left} others have less than {SHOWN:.0%} each"])] if left else []
    return as_text([Section("", lines=head), table, *rest], width=WIDTH).rstrip()


HEAD = (
    *("share", "bound ms", "calls", "workgroups", "GFLOP", "MB", "registers", "spilled B", "shared B"),
    *("occupancy", "matrix", "FMA", "load B", "products on", "limited by", "bound by", "pipeline", "dispatch"),
)  # fmt: skip


def _bound(dispatch: Mapping[str, Any]) -> float:
    """The least time of all its calls, ms; 0 if it is not known."""
    return dispatch["calls"] * (dispatch["bound_ms"] or 0.0)


def _summary(report: Mapping[str, Any]) -> str:
    bound, spills = report.get("static_bound_ms"), report.get("static_spills")
    parts = {
        "bound": f"{milliseconds(bound)} ms" if bound else "",
        "dispatches": str(sum(each["calls"] for each in report[DISPATCHES])),
        "spills": "" if spills is None else f"{spills:,} bytes",
        "occupancy": _percent(report.get("static_occupancy")),
        "products on matrix units": _percent(report.get("static_matrix_share")),
    }
    return "; ".join(f"{name} {value or 'not known'}" for name, value in parts.items())


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _row(each: Mapping[str, Any], whole: float) -> Sequence[str]:
    kernel, work = each["kernel"], each["work"] or {}
    product = work.get("product_flop")
    unit = f"{MATRIX} {kernel['element']}" if kernel["matrix"] else f"{VECTOR} {work.get('element')}"  # fmt: skip
    upper = "≤ " if kernel["registers"] is None else ""
    loads = kernel["loads"]
    return [
        f"{_bound(each) / whole:.0%}" if whole else "",
        milliseconds(_bound(each)) if each["bound_ms"] else UNKNOWN,
        str(each["calls"]),
        _known(each["workgroups"]),
        f"{(product + work['other_flop']) / 1e9:.3g}" if work else UNKNOWN,
        f"{work['bytes'] / 1e6:.3g}" if work else UNKNOWN,
        _known(kernel["registers"]),
        _known(kernel["spilled_bytes"]),
        str(kernel["shared_bytes"]),
        UNKNOWN if each["occupancy"] is None else f"{upper}{each['occupancy']:.0%}",
        str(kernel["matrix"]),
        str(kernel["fma"]),
        "–".join(map(str, dict.fromkeys((*loads[:1], *loads[-1:])))),
        unit if product else "",
        each["limited_by"],
        each["bound_by"],
        work.get("pipeline", ""),
        each["function"],
    ]


def _known(value: object) -> str:
    return UNKNOWN if value is None else str(value)


def of_devices() -> str:
    """The table of devices in docs/gpu_static.md, as Markdown."""
    head = ("device", "targets", "units", "waves × lanes", "workgroups", "local memory", "GB/s", "dense TFLOP/s", "figures by")  # fmt: skip
    rows = [
        (
            device.name,
            ", ".join(f"`{name}` {arch}" for name, arch in device.archs.items()),
            str(device.units),
            f"{device.waves} × {device.wave}",
            str(device.workgroups),
            f"{device.shared_bytes // 1024} KiB",
            f"{device.gb_per_s:,.0f}",
            ", ".join(f"{kind} {peak:g}" for kind, peak in device.tflop_per_s.items()),
            device.sources,
        )
        for device in DEVICES
    ]
    return wording.table(head, rows)
