"""Names that the configuration, command lines and rows share: what dumps and profiles there are."""

from __future__ import annotations

BASELINE_DUMPS = ("profile", "xla_metrics", "ir", "hlo_modules", "dynamo_counters")
"""Kinds of dump that are of baselines."""

IREE_DUMPS = ("iree_phases", "iree_graph")
"""Kinds of dump that are of IREE's cells."""

IR_FORMATS = ("text", "hlo", "stablehlo")
"""Forms in which PyTorch/XLA can save its IR: `dumps.save_ir` is one of them, or a list."""

PROFILES = ("profiler", "operators", "dynamo_counters")
"""What `measure.collect` may name: taken of a baseline by one more call, after the timing."""
