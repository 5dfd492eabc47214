"""The stages of the limits of the machine."""

from __future__ import annotations

from scripts.config.cell import Kind
from scripts.config.stages import Need, Stage

STAGES = (
    Stage(
        "machine_limits",
        Kind.DEVICE,
        ("scripts.tools.limits.measure_machine_limits",),
        limits="baseline",
        forked=True,
        need=Need(4000, 300, 0),
        wants_device=True,
    ),
)
