"""The stages of other ways to compile."""

from __future__ import annotations

from scripts.config.cell import Kind
from scripts.config.stages import IREE_ENV, REPORT, STATUS, TIMING, Need, Stage

STAGES = (
    Stage(
        "remedy",
        Kind.MODULE,
        ("scripts.stages.compile_iree",),
        env=IREE_ENV,
        after="compile",
        limits="compile",
        forked=True,
        need=Need(3000, 360, 0),
        aggregated=(REPORT,),
        remedies="compile",
    ),
    Stage(
        "tune",
        Kind.TUNING,
        (
            "scripts.tools.variants.tune_iree",
            "scripts.stages.compile_iree",
            "scripts.stages.verify_iree",
            "scripts.stages.time_module",
        ),
        env=IREE_ENV,
        after="reference",
        limits="compile",
        forked=True,
        need=Need(3000, 900, 60, "weights"),
        wants_device=True,
        aggregated=(STATUS, REPORT),
        checked_by="scripts.tools.variants.candidates",
    ),
    Stage(
        "time_tuned",
        Kind.GROUP,
        ("scripts.stages.time_group", "scripts.stages.time_module"),
        limits="time",
        need=Need(3000, 300, 120, "group", turns=True),
        wants_device=True,
        own_rule="time_tuned",
        aggregated=(STATUS, TIMING),
    ),
)
