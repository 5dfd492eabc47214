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
from scripts.results.page_sections import NO_LIMIT, Section, as_text
from scripts.results.wording import milliseconds
from scripts.supervise import outcome
from scripts.tools.gpu_static import radv
from scripts.tools.gpu_static.devices import DEVICES, MATRIX, VECTOR
from scripts.tools.gpu_static.facts import DISPATCHES

MODULE = "module.vmfb"
SHOWN = 0.01
"""Dispatches with a smaller share of the bound are not shown."""
UNKNOWN = "?"
"""What no compiler has said."""


@dataclass(frozen=True)
class Described:
    """A cell of a GPU. `report`: that of its compilation, or of the remedy that compiled it; `vmfb`: the module, if it has SPIR-V."""

    cell: Cell
    report: Mapping[str, Any]
    vmfb: Path | None = None


def read(results: Path, name: str) -> Described | None:
    """The dispatches of a cell, by its name; None of a CPU. Raises ValueError, which says why, if there is nothing about
    it, and for other names and damaged files."""
    cell = Cell.parse(name, Kind.IREE)
    module, root = cell.to(Kind.MODULE), results.parent
    compiled, remedied = (root / stages.STAGES[name].path(module) for name in ("compile", "remedy"))
    if not (compiled / requests.FILE).is_file():
        return None
    backend = requests.read(compiled).fields["backend"]
    if BACKENDS[backend].device_kind == "cpu":
        return None
    by_remedy = atomic.read_artifact(remedied / REPORT).get("compile")
    report = by_remedy or atomic.read_artifact(compiled / REPORT)
    if DISPATCHES in report:
        vmfb = (remedied if by_remedy else compiled) / MODULE
        return Described(cell, report, vmfb if backend == "vulkan" else None)
    ended = outcome.read_or_damaged(compiled / STATUS)
    if ended.status != outcome.OK:
        raise ValueError(f"{cell} does not compile: {ended.status} ({ended.reason}): {ended.detail}; log: {ended.log}")  # fmt: skip
    again = checkout.run_command("results/latency.csv", f"models={cell.model}", "--forcerun compile_iree")  # fmt: skip
    raise ValueError(f"the compilation of {cell} does not describe its dispatches (an older version, or its log says why); make it again: {again}")  # fmt: skip


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
    of_radv = radv.statistics(described.vmfb) if described.vmfb else {}
    if described_names := [name for each in shown if (name := each["function"]) in of_radv]:
        rows = [[*(str(of_radv[name][key]) for key in OF_RADV), name] for name in described_names]
        rest.append(Section(f"By RADV, for an AMD GPU ({radv.FAMILY})", (*OF_RADV, "dispatch"), rows, range(len(OF_RADV))))  # fmt: skip
    return as_text([Section("", lines=head), table, *rest], width=NO_LIMIT).rstrip()


OF_RADV = ("VGPRs", "Spilled VGPRs", "LDS size", "Subgroups per SIMD", "Latency")
"""What is shown of the statistics of the driver, by their names there."""
HEAD = (
    *("share", "bound ms", "calls", "workgroups", "GFLOP", "MB", "registers", "spilled B", "shared B"),
    *("occupancy", "matrix", "FMA", "load B", "products on", "limited by", "bound by", "pipeline", "dispatch"),
)  # fmt: skip


def _bound(dispatch: Mapping[str, Any]) -> float:
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
        [
            each.name,
            ", ".join(f"`{name}` {arch}" for name, arch in each.archs.items()),
            *(str(each.units), f"{each.waves} × {each.wave}", str(each.workgroups)),
            *(f"{each.shared_bytes // 1024} KiB", f"{each.gb_per_s:,.0f}"),
            ", ".join(f"{kind} {peak:g}" for kind, peak in each.tflop_per_s.items()),
            each.sources,
        ]
        for each in DEVICES
    ]
    return wording.table(head, rows)
