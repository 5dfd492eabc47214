"""The stages of the limits of the machine."""

from __future__ import annotations

from scripts.matrix.cell import Kind
from scripts.matrix.stages import Need, Stage

STAGES = (
    Stage(
        "machine_limits",
        Kind.DEVICE,
        ("scripts.stages.measure_machine_limits",),
        limits="baseline",
        forked=True,
        need=Need(4000, 300, 0),
        wants_device=True,
    ),
)
