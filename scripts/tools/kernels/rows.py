"""The rows of results/kernels.csv: those of models, with the section `kernel`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from scripts.config import stages
from scripts.config.rows import Matrix
from scripts.core import checkout
from scripts.core.tensors import DTYPES, Signature, TensorType
from scripts.measure.timing.machine_limits import COMPUTE, MEMORY, MachineLimits
from scripts.results import columns, record, speedups
from scripts.results.columns import FROM_1, INTEGER, NUMBER, OBJECT, POSITIVE, TEXT, Field, names
from scripts.results.results_file import Form
from scripts.results.row_set import Content, RowSet
from scripts.results.screen import Printed
from scripts.run import outputs
from scripts.tools.kernels import kernels, page
from scripts.tools.kernels.kernels import BITS, Kernel
from scripts.tools.report.web.page_source import of_set

OWN = (
    Field("kernel", OBJECT, "The kernel, the work of a call, and how fast it was done."),
    Field("kernel.name", TEXT, "Name of the kernel: its file in `models/kernels/`.", column="kernel"),
    Field("kernel.shape", TEXT, "Shape, in the order of the kernel's DIMENSIONS.", column="shape"),
    Field("kernel.memory_bytes", INTEGER, "Bytes that a call reads and writes, each tensor once, by the kernel's declarations.", unit="bytes", column="memory_bytes", checks=FROM_1),
    Field("kernel.flop", NUMBER, "Floating-point operations of a call, by the same declarations.", unit="FLOP", column="flop", checks=POSITIVE),
    Field("kernel.flop_per_byte", NUMBER, "`flop` / `memory_bytes`.", unit="FLOP/byte", column="flop_per_byte", checks=POSITIVE),
    Field("kernel.gb_per_s", NUMBER, "`memory_bytes` / latency, in 1e9 bytes per second.", unit="GB/s", column="gb_per_s", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.gb_per_s_low", NUMBER, "Lower end of its 99 % interval.", unit="GB/s", column="gb_per_s_low", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.gb_per_s_high", NUMBER, "Its upper end.", unit="GB/s", column="gb_per_s_high", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.gflop_per_s", NUMBER, "`flop` / latency.", unit="GFLOP/s", column="gflop_per_s", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.machine_gb_per_s", NUMBER, "[Bandwidth of the memory](kernels.md#what-the-machine-can-do) with as many threads.", unit="GB/s", column="machine_gb_per_s", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.bandwidth_share", NUMBER, "`gb_per_s` / `machine_gb_per_s`. Above 1 where caches hold what a kernel moves.", unit="ratio", column="bandwidth_share", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.limit_share", NUMBER, "The time that the device needs [at least](limits.md) for the FLOPs or the bytes / latency; small problems are compared with the caches.", unit="ratio", column="limit_share", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.limited_by", TEXT, "Which of the two takes longer.", column="limited_by", nullable=True, varies=True, checks=Literal[MEMORY, COMPUTE]),
    Field("kernel.no_limit_share", TEXT, "Why a share above 1 is not given.", column="no_limit_share", nullable=True, varies=True),
)  # fmt: skip
"""The section `kernel` of a line of results/kernels.jsonl."""

FIELDS = (*columns.FIELDS, *OWN)
"""Every value of a kernel's record."""

_NAMES = """
kernel shape model dtype runtime frontend target backend opt_level flags device device_name threads status stage reason detail
blocked_by remedy frontend_used verification_code max_abs_error rmse_vs_fp64 latency_ms latency_low_ms latency_high_ms
generations memory_bytes gb_per_s gb_per_s_low gb_per_s_high machine_gb_per_s bandwidth_share flop flop_per_byte gflop_per_s
limit_share limited_by no_limit_share speedup_vs_eager speedup_vs_eager_low speedup_vs_eager_high speedup_vs_inductor
speedup_vs_inductor_low speedup_vs_inductor_high verdict doubt compile_s first_call_ms dispatch_count torch_version
frontend_version torch_xla_version iree_version rewrites fingerprint stale log
"""
# Where latency.csv has a column of the same name, the kernel's counts.
_BY_NAME = {declared.column: declared for declared in (*columns.COLUMNS, *OWN)}

COLUMNS = tuple(_BY_NAME[name] for name in _NAMES.split())
"""The columns of results/kernels.csv, in order."""


Record = dict[str, Any]


class WrongTraffic(ValueError):
    """A kernel declares other tensors than its functions have. Names both."""


def records(matrix: Matrix, measured: Sequence[MachineLimits], root: Path = Path()) -> list[Record]:
    """The records of all rows of the kernels' matrix. `measured`: the limits of its devices. Raises WrongTraffic."""
    declared = {
        name: kernels.read(Path(model.file).stem, checkout.ROOT)
        for name, model in matrix.models.items()
    }
    for name, kernel in declared.items():
        if signature := _signature(root, name):
            _require_traffic(kernel, matrix.models[name].options["shape"], signature)
    kernel_records = record.records(matrix, root)
    for each in kernel_records:
        each["kernel"] = section(each, declared[each["model"]["name"]], measured)
    return kernel_records


def section(record: Record, kernel: Kernel, measured: Sequence[MachineLimits]) -> dict[str, Any]:
    """The section `kernel` of a record. `measured`: the limits of all devices."""
    shape, dtype = record["model"]["options"]["shape"], record["experiment"]["dtype"]
    moved, flop = kernel.memory_bytes(shape, dtype), kernel.flop(shape)
    latency, of_device = record["latency"], speedups.limits_of_row(record, measured)
    values: dict[str, Any] = {
        **dict.fromkeys(names(OWN, "kernel")),
        "name": kernel.name,
        "shape": shape,
        "memory_bytes": moved,
        "flop": flop,
        "flop_per_byte": flop / moved,
        "machine_gb_per_s": of_device and of_device.gb_per_s,
    }
    if not latency:
        return values
    slow, fast = latency["high_ms"], latency["low_ms"]
    values |= {
        "gb_per_s": moved / latency["ms"] / 1e6,
        "gb_per_s_low": slow and moved / slow / 1e6,
        "gb_per_s_high": fast and moved / fast / 1e6,
        "gflop_per_s": flop / latency["ms"] / 1e6,
    }
    if of_device:
        values["bandwidth_share"] = values["gb_per_s"] / of_device.gb_per_s
        share = speedups.limit_share(of_device, flop, moved, dtype, latency)
        values |= {key: share[key] for key in ("limit_share", "limited_by", "no_limit_share")}
    return values


def _signature(root: Path, model: str) -> Signature | None:
    """The signature of a reference; None if there is none, because the stage failed or was damaged."""
    path = root / stages.STAGES["reference"].path(model, "signature.json")
    try:
        return Signature.read(path) if path.stat().st_size else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _require_traffic(kernel: Kernel, shape: str, signature: Signature) -> None:
    """Raise WrongTraffic if a tensor of the kernel has another size than declared.

    Inputs and weights are compared by name, results by their order.
    """
    declared = kernel.tensor_bytes(shape, signature.dtype)
    there = {_name(tensor): _bytes(tensor) for tensor in (*signature.inputs, *signature.parameters)}
    reads = {name: declared[name] for name in kernel.reads}
    if reads.keys() != there.keys():
        odd = sorted(reads.keys() ^ there.keys())[0]
        side = "no such input" if odd in reads else "is not declared"
        raise WrongTraffic(f"{kernel.file}: READS: {odd}: {side}")
    for name, size in reads.items():
        fits = size <= there[name] if name in kernel.partly_read else size == there[name]
        if not fits:
            raise WrongTraffic(
                f"{kernel.file}: READS: {name}: {size} bytes declared at {shape}, but the input has {there[name]}"
            )
    results = [_bytes(tensor) for tensor in signature.outputs]
    writes = [declared[name] for name in kernel.writes]
    if results != writes:
        raise WrongTraffic(
            f"{kernel.file}: WRITES: {writes} bytes declared at {shape}, but the results have {results}"
        )


def _name(kind: TensorType) -> str:
    """`x` of the path `[1]['x']` of a keyword input; the name of a weight."""
    return kind.name.rpartition("['")[2].removesuffix("']")


def _bytes(kind: TensorType) -> int:
    return math.prod(kind.shape) * BITS[DTYPES[kind.dtype][0]] // 8


def content(matrix: Matrix, folder: Path) -> Content:
    part = matrix.parts.get("kernels")
    if part is None or not part.models:
        raise ValueError(
            "the configuration selects no kernel; set kernels.select, or raise kernels.max_bytes"
        )
    limits = speedups.read_limits(part.devices())

    def write_plots(records: list[Record]) -> None:
        for name in dict.fromkeys(each["kernel"]["name"] for each in records):
            of_kernel = [each for each in records if each["kernel"]["name"] == name]
            page.write_plot(name, of_kernel, folder / "kernels")

    kernel_records = records(part, limits)
    return Content(kernel_records, lambda records: page.page(records, limits), write_plots)


ROW_SET = RowSet(
    name="kernels",
    jsonl=outputs.files_of("kernels")[2],
    about="One row for every kernel at every shape, on every lowering path and target, and under every baseline.\n`kernels.jsonl` has all sections of `results.jsonl`, and the section `kernel`.",
    declared_in="scripts/tools/kernels/rows.py",
    form=Form("results/kernels.csv", FIELDS),
    columns=COLUMNS,
    described=(*COLUMNS, OWN[0]),
    content=content,
    screen=lambda records: Printed(page.on_screen(records)),
)
VIEWS = (
    of_set(ROW_SET, "Kernels", "No kernels were measured", lambda records: page.sections(records)),
)
