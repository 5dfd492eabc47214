"""Every value of a record of an operator problem: the columns of operators.csv in order, then the
fields that are not columns.

Values that rows of latency.csv have too are those of scripts/results/columns.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from scripts.core import checkout
from scripts.measure.verify import verification
from scripts.results import columns
from scripts.results.columns import (
    CLOSED,
    FLAG,
    FROM_0,
    INTEGER,
    LIST,
    NUMBER,
    OBJECT,
    POSITIVE,
    TEXT,
    Field,
)
from scripts.results.results_file import Form
from scripts.supervise import outcome
from scripts.tools.operators.report import faults

TEXTS = list[str]
STAGES = ["env", *columns.OF_BATCHES]


COLUMNS = (
    Field("problem.op", TEXT, "Operator, with its overload: `aten.add.Tensor`.", column="op_name"),
    Field("problem.args", TEXT, "Its arguments ([format](operators.md#argument-format)).", column="args"),
    Field("problem.uuid", TEXT, "BackendBench's id: a digest of operator and arguments.", column="uuid"),
    Field("problem.name", TEXT, "Short name, unique in a run; part of paths and of `vmfbench failed`.", column="problem"),
    Field("problem.source_uuid", TEXT, "Id of the problem in its source, if `dtype` has replaced a type.", column="source_uuid"),
    Field("problem.count", INTEGER, "Calls in the source, of all models together.", unit="calls", column="count", checks=FROM_0),
    Field("problem.models", LIST, "Models that call it; empty if the source does not name them.", column="in_models", checks=TEXTS),
    Field("", INTEGER, "Number of these models.", unit="count", column="in_models_count", value=lambda record: len(record["problem"]["models"]) or None),
    Field("problem.elements", INTEGER, "Elements of all tensor arguments together.", unit="count", column="elements", checks=FROM_0),
    Field("dataset.runnable", FLAG, "Of BackendBench's dataset, as the next six.", column="runnable"),
    Field("dataset.included_in_benchmark", FLAG, "Whether BackendBench's TorchBench suite includes the problem.", column="included_in_benchmark"),
    Field("dataset.why_excluded", LIST, "Why it does not.", column="why_excluded", checks=TEXTS),
    Field("dataset.is_synthetic", FLAG, "Whether its arguments come from no model.", column="is_synthetic"),
    Field("dataset.runtime_ms", NUMBER, "Eager's time on the GPU of the dataset's authors.", unit="ms", column="runtime_ms", nullable=True),
    Field("dataset.relative_runtime_to_kernel_launch", NUMBER, "The same time, as a multiple of that of an empty kernel.", unit="ratio", column="relative_runtime_to_kernel_launch", nullable=True),
    Field("dataset.is_overhead_dominated_op", FLAG, "Whether that multiple is below 1.3.", column="is_overhead_dominated_op"),
    *columns.chosen(columns.FIELDS, "experiment.runtime", "experiment.frontend", "experiment.target", "experiment.backend", "experiment.opt_level", "experiment.flags", "experiment.device", "experiment.precision", "run.device_name", "run.threads", "outcome.status"),
    Field("outcome.stage", TEXT, "First stage that failed, or the last stage of a row that is ok.", column="stage", checks=Literal[tuple(STAGES)]),
    *columns.chosen(columns.FIELDS, "outcome.reason", "outcome.detail"),
    Field("outcome.fault", TEXT, "Where the fault is ([list](operators.md#where-the-fault-is)); empty for a row that is ok.", column="fault", checks=Literal[("", *faults.FAULTS)]),
    *columns.chosen(columns.FIELDS, "outcome.blocked_by", "verification.code", "verification.max_abs_error"),
    Field("verification.max_rel_error", NUMBER, "Largest relative difference from eager's results.", unit="ratio", column="max_rel_error", nullable=True, optional=True, checks=FROM_0),
    *columns.chosen(columns.FIELDS, "verification.rmse_vs_fp64"),
    Field("verification.backendbench_correct", FLAG, "Whether the results pass BackendBench's criterion; null where nothing ran.", column="backendbench_correct", nullable=True),
    Field("reference.weak", LIST, "Wrong answers that pass the verification ([more](operators.md#every-problem-must-be-able-to-fail)); empty for a problem that is not weak.", column="weak", optional=True, checks=TEXTS),
    Field("reference.weak_backendbench", LIST, "Wrong answers that pass BackendBench's criterion.", column="weak_backendbench", optional=True, checks=TEXTS),
    Field("reference.marks", LIST, "What eager's results contain: `nan`, `infinite`, or only `constant` values.", column="marks", optional=True, checks=TEXTS),
    *columns.chosen(columns.FIELDS, *(f"latency.{name}" for name in ("ms", "low_ms", "high_ms", "p50_ms", "p90_ms", "p99_ms", "generations", "turns"))),
    *columns.chosen(columns.FIELDS, *(f"latency.speedup_vs_{base}{end}" for base in columns.BASES for end in ("", "_low", "_high"))),
    *columns.chosen(columns.FIELDS, *(f"latency.{name}" for name in ("verdict", "control_ratio", "control_low", "control_high", "doubt"))),
    Field("latency.gb_per_s", NUMBER, "Bytes of arguments and results / latency, in 10⁹ bytes per second.", unit="GB/s", column="gb_per_s", nullable=True, varies=True, checks=POSITIVE),
    Field("latency.gflop_per_s", NUMBER, "Floating-point operations / latency, where their number is known.", unit="GFLOP/s", column="gflop_per_s", nullable=True, varies=True, checks=POSITIVE),
    Field("run.host_overhead_ms", NUMBER, "Time of a call of this runtime that computes nothing.", unit="ms", column="host_overhead_ms", nullable=True, varies=True, checks=FROM_0),
    Field("run.overhead_here", FLAG, "Whether eager's latency on this device is below 1.3 times that of an empty call.", column="overhead_here", nullable=True, varies=True),
    Field("reference.bytes", INTEGER, "Size of arguments and results.", unit="bytes", column="bytes", optional=True, checks=FROM_0),
    Field("reference.flops", INTEGER, "Floating-point operations of a call, where known.", unit="FLOP", column="flops", nullable=True, optional=True, checks=FROM_0),
    *columns.chosen(columns.FIELDS, "run.load_ms", "run.first_call_ms"),
    Field("compile.seconds", NUMBER, "Time of IREE's compiler.", unit="s", column="compile_s", optional=True, varies=True, checks=FROM_0),
    Field("compile.cached", FLAG, "Whether it was compiled in an earlier run, or for another problem.", column="cached", optional=True, varies=True),
    Field("compile.vmfb_bytes", INTEGER, "Size of the module.", unit="bytes", column="vmfb_bytes", optional=True, varies=True),
    *columns.chosen(columns.FIELDS, "export.rewrites", "versions.torch", "versions.frontend", "versions.torch_xla", "versions.iree", "outcome.fingerprint", "outcome.stale", "outcome.log"),
)  # fmt: skip
"""The columns of results/operators.csv, in order."""

OTHERS = (
    Field("problem", OBJECT, "The problem.", checks=CLOSED),
    Field("problem.calls", LIST, "Calls of each model, in the order of `models`; empty if only their sum is known.", checks=list[int]),
    Field("dataset", OBJECT, "What BackendBench's dataset says of the problem; null for a problem of a trace.", nullable=True, checks=CLOSED),
    Field("experiment", OBJECT, "What was run, and how."),
    *columns.chosen(columns.FIELDS, "experiment.xla_flags", "experiment.device_uri", "experiment.exporter", "experiment.exporter_options", "experiment.arch"),
    Field("reference", OBJECT, "What the stage operator_reference found out about the problem; empty where it failed."),
    Field("reference.deterministic", FLAG, "Whether two runs of eager agree.", optional=True),
    Field("reference.outputs", LIST, "Shapes and types of the results.", optional=True),
    *columns.chosen(columns.FIELDS, "outcome", "outcome.command", "verification", "verification.detail", "verification.golden_rmse_vs_fp64", "verification.tol", "verification.cosine", "verification.noise"),
    *columns.chosen(columns.FIELDS, "latency", *(f"latency.{name}" for name in ("calls", "values_ms", "uncounted_ms", "anchor_ms", "anchor", "group", "noise", "started", "foreign", "steal", "load", "unknown", "leaked_bytes"))),
    Field("run", OBJECT, "What the verification has found out; every value is null if nothing ran."),
    Field("run.seconds", NUMBER, "Time that the verification took for this problem.", unit="s", nullable=True, varies=True),
    *columns.chosen(columns.FIELDS, "export", "export.program_bytes", "compile"),
    Field("compile.module", TEXT, "The module.", optional=True),
    Field("compile.function", TEXT, "The problem's function in it.", optional=True),
    *columns.chosen(columns.FIELDS, "versions", "versions.<package>", "versions.torch_build", "vmfbench"),
)  # fmt: skip
"""Fields of results/operators/operators.jsonl that are not columns."""

FIELDS = (*COLUMNS, *OTHERS)


def contradiction(record: Mapping[str, Any]) -> str:
    """Return how the values of a record contradict each other; "" if they do not."""
    ended, code = record["outcome"], record["verification"]["code"]
    status = ended["status"]
    is_failed = status not in (outcome.OK, outcome.SKIPPED)
    if (is_failed and not (ended["reason"] and ended["detail"])) or bool(
        ended["fault"]
    ) != is_failed:
        return f"{status} with reason {ended['reason']!r}, detail {ended['detail']!r}, fault {ended['fault']!r}"
    # One whose target is compiled and not run is ok without a latency.
    is_measured = status == outcome.OK and ended["stage"] != "operator_compile"
    if record["latency"] and (status, code) != (outcome.OK, verification.PASS):
        return f"{status} with a latency and verification {code}"
    return "ok without a latency" if is_measured and not record["latency"] else ""


JSONL = Path("results/operators/operators.jsonl")
FORM = Form(
    "results/operators.csv",
    FIELDS,
    contradiction,
    dict.fromkeys(
        ("problem.name", "problem.op", "problem.args", "experiment.runtime", "experiment.frontend", "experiment.target", "outcome.status", "verification.code", "latency.ms")
    ),
)  # fmt: skip
COMMAND = checkout.run_command(FORM.csv)
