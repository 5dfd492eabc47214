"""The stages of operator problems."""

from __future__ import annotations

import functools

from scripts.config.cell import Kind
from scripts.config.stages import IREE_ENV, OUTCOMES, STATUS, Need, Stage

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
        ("scripts.tools.operators.trace_operators",),
        limits="reference",
        skipped="model",
        forked=True,
        need=Need(3000, 120, 60, "weights"),
    ),
    _of_batch(
        "operator_reference",
        Kind.BATCH,
        ("scripts.tools.operators.make_operator_references",),
        forked=True,
    ),
    _of_batch(
        "operator_export",
        Kind.BATCH_PROGRAM,
        ("scripts.tools.operators.export_operators", "scripts.frontends.exporters.{exporter}"),
        entry="frontend",
        after="operator_reference",
        forked=True,
        version=2,
    ),
    _of_batch(
        "operator_compile",
        Kind.BATCH_IREE,
        ("scripts.tools.operators.compile_operators",),
        env=IREE_ENV,
        after="operator_export",
        forked=True,
        version=2,
    ),
    _of_batch(
        "operator_verify",
        Kind.BATCH_IREE,
        ("scripts.tools.operators.verify_operators",),
        env=IREE_ENV,
        after="operator_compile",
        forked=True,
        wants_device=True,
    ),
    _of_batch(
        "operator_baseline",
        Kind.BATCH_BASELINE,
        ("scripts.tools.operators.verify_operator_baseline", "scripts.baselines.{runtime}"),
        entry="baseline",
        after="operator_reference",
        forked=True,
        wants_device=True,
    ),
    _of_batch(
        "operator_time",
        Kind.BATCH_GROUP,
        (
            "scripts.tools.operators.time_operators",
            "scripts.tools.operators.verify_operators",
            "scripts.tools.operators.verify_operator_baseline",
        ),
        need=Need(6000, 3600, 0),
        wants_device=True,
    ),
)
