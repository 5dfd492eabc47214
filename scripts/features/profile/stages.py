"""The stages of dumps and profiles."""

from __future__ import annotations

from scripts.matrix.cell import Kind
from scripts.matrix.stage import IREE_ENV, Need, Stage

STAGES = (
    Stage(
        "dump_iree",
        Kind.IREE_DUMP,
        ("scripts.stages.dump_iree",),
        env=IREE_ENV,
        after="export",
        recorded_as="dumps",
        limits="baseline",
        skipped="cell",
        need=Need(4000, 300, 60, "runtime"),
        wants_device=True,
    ),
    Stage(
        "dump_baseline",
        Kind.BASELINE,
        ("scripts.stages.dump_baseline", "scripts.baselines.{runtime}"),
        entry="baseline",
        after="reference",
        recorded_as="dumps",
        limits="baseline",
        skipped="cell",
        need=Need(4000, 300, 60, "runtime"),
        wants_device=True,
    ),
    Stage(
        "profile_iree",
        Kind.IREE_DUMP,
        ("scripts.stages.profile_iree",),
        env=IREE_ENV,
        after="compile",
        recorded_as="profile",
        limits="baseline",
        skipped="cell",
        need=Need(4000, 300, 60, "runtime"),
        wants_device=True,
    ),
    Stage(
        "profile_baseline",
        Kind.BASELINE,
        ("scripts.stages.profile_baseline", "scripts.baselines.{runtime}"),
        entry="baseline",
        after="reference",
        recorded_as="profile",
        limits="baseline",
        skipped="cell",
        need=Need(4000, 300, 60, "runtime"),
        wants_device=True,
    ),
)
