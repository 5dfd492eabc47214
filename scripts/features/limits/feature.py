"""The feature `limits`: the memory bandwidth and FLOP/s of a device, as a limit of every row."""

from __future__ import annotations

from scripts.matrix.feature import Feature

FEATURE = Feature("limits")
