"""The stages of operator problems."""

from __future__ import annotations

from scripts.matrix.cell import Kind
from scripts.matrix.stage import IREE_ENV, OUTCOMES, STATUS, Need, Stage

STAGES = (
    Stage(
        "trace",
        Kind.MODEL,
        ("scripts.stages.trace_operators",),
        limits="reference",
        skipped="model",
        forked=True,
        need=Need(3000, 120, 60, "weights"),
    ),
    Stage(
        "operator_reference",
        Kind.BATCH,
        ("scripts.stages.make_operator_references",),
        limits="operators",
        forked=True,
        need=Need(3000, 1800, 0),
        aggregated=(STATUS, OUTCOMES),
    ),
    Stage(
        "operator_export",
        Kind.BATCH_PROGRAM,
        ("scripts.stages.export_operators", "scripts.exporters.{exporter}"),
        entry="frontend",
        after="operator_reference",
        limits="operators",
        forked=True,
        need=Need(3000, 1800, 0),
        aggregated=(STATUS, OUTCOMES),
    ),
    Stage(
        "operator_compile",
        Kind.BATCH_IREE,
        ("scripts.stages.compile_operators",),
        env=IREE_ENV,
        after="operator_export",
        limits="operators",
        need=Need(3000, 1800, 0),
        aggregated=(STATUS, OUTCOMES),
    ),
    Stage(
        "operator_verify",
        Kind.BATCH_IREE,
        ("scripts.stages.verify_operators",),
        env=IREE_ENV,
        after="operator_compile",
        limits="operators",
        forked=True,
        need=Need(3000, 1800, 0),
        wants_device=True,
        aggregated=(STATUS, OUTCOMES),
    ),
    Stage(
        "operator_baseline",
        Kind.BATCH_BASELINE,
        ("scripts.stages.verify_operator_baseline", "scripts.baselines.{runtime}"),
        entry="baseline",
        after="operator_reference",
        limits="operators",
        forked=True,
        need=Need(3000, 1800, 0),
        wants_device=True,
        aggregated=(STATUS, OUTCOMES),
    ),
    Stage(
        "operator_time",
        Kind.BATCH_GROUP,
        (
            "scripts.stages.time_operators",
            "scripts.stages.verify_operators",
            "scripts.stages.verify_operator_baseline",
        ),
        limits="operators",
        need=Need(6000, 3600, 0),
        wants_device=True,
        aggregated=(STATUS, OUTCOMES),
    ),
)
