"""The values of a kernel's record in addition to those of a model's, and the columns of results/kernels.csv."""

from __future__ import annotations

from scripts.records import columns
from scripts.records.columns import FROM_1, POSITIVE
from scripts.records.fields import INTEGER, NUMBER, OBJECT, TEXT, Field
from scripts.timing.machine_limits import COMPUTE, MEMORY

OWN = (
    Field("kernel", OBJECT, "The kernel, the work of a call, and how fast it was done."),
    Field("kernel.name", TEXT, "Name of the kernel: its file in `models/kernels/`.", column="kernel"),
    Field("kernel.shape", TEXT, "Shape, in the order of the kernel's DIMENSIONS.", column="shape"),
    Field("kernel.memory_bytes", INTEGER, "Bytes that a call has to read and write, each tensor once, by the declarations of the kernel.", unit="bytes", column="memory_bytes", checks=FROM_1),
    Field("kernel.flop", NUMBER, "Floating-point operations of a call, by the same declarations.", unit="FLOP", column="flop", checks=POSITIVE),
    Field("kernel.flop_per_byte", NUMBER, "`flop` / `memory_bytes`.", unit="FLOP/byte", column="flop_per_byte", checks=POSITIVE),
    Field("kernel.gb_per_s", NUMBER, "`memory_bytes` / latency, in 1e9 bytes per second.", unit="GB/s", column="gb_per_s", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.gb_per_s_low", NUMBER, "Lower end of its 99 % interval, which is that of the latency ([how](timing.md#intervals)).", unit="GB/s", column="gb_per_s_low", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.gb_per_s_high", NUMBER, "Its upper end.", unit="GB/s", column="gb_per_s_high", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.gflop_per_s", NUMBER, "`flop` / latency.", unit="GFLOP/s", column="gflop_per_s", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.machine_gb_per_s", NUMBER, "Bandwidth of the device's memory, by a triad ([how](kernels.md#what-the-machine-can-do)); null if it was not measured on this device with as many threads.", unit="GB/s", column="machine_gb_per_s", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.bandwidth_share", NUMBER, "`gb_per_s` / `machine_gb_per_s`. Above 1 where caches hold what a kernel moves.", unit="ratio", column="bandwidth_share", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.limit_share", NUMBER, "The time that the device needs at least, for the FLOPs or for the bytes, / latency. Smaller problems are compared with the bandwidth of the caches ([limits](limits.md)).", unit="ratio", column="limit_share", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.limited_by", TEXT, "Which of the two takes longer.", column="limited_by", nullable=True, varies=True, checks={"enum": [MEMORY, COMPUTE, None]}),
    Field("kernel.no_limit_share", TEXT, "Why a share above 1, beyond the interval of the latency, is not given.", column="no_limit_share", nullable=True, varies=True),
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
