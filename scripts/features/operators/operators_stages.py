"""The stages of operator problems."""

from __future__ import annotations

import functools

from scripts.matrix.cell import Kind
from scripts.matrix.stages import IREE_ENV, OUTCOMES, STATUS, Need, Stage

_of_batch = functools.partial(
    Stage,
    limits="operators",
    timeout_s=60,
    need=Need(3000, 1800, 0),
    aggregated=(STATUS, OUTCOMES),
)

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
    _of_batch(
        "operator_reference",
        Kind.BATCH,
        ("scripts.stages.make_operator_references",),
        forked=True,
    ),
    _of_batch(
        "operator_export",
        Kind.BATCH_PROGRAM,
        ("scripts.stages.export_operators", "scripts.exporters.{exporter}"),
        entry="frontend",
        after="operator_reference",
        forked=True,
    ),
    _of_batch(
        "operator_compile",
        Kind.BATCH_IREE,
        ("scripts.stages.compile_operators",),
        env=IREE_ENV,
        after="operator_export",
    ),
    _of_batch(
        "operator_verify",
        Kind.BATCH_IREE,
        ("scripts.stages.verify_operators",),
        env=IREE_ENV,
        after="operator_compile",
        forked=True,
        wants_device=True,
    ),
    _of_batch(
        "operator_baseline",
        Kind.BATCH_BASELINE,
        ("scripts.stages.verify_operator_baseline", "scripts.baselines.{runtime}"),
        entry="baseline",
        after="operator_reference",
        forked=True,
        wants_device=True,
    ),
    _of_batch(
        "operator_time",
        Kind.BATCH_GROUP,
        (
            "scripts.stages.time_operators",
            "scripts.stages.verify_operators",
            "scripts.stages.verify_operator_baseline",
        ),
        need=Need(6000, 3600, 0),
        wants_device=True,
    ),
)
