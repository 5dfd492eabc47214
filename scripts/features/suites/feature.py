"""The feature `suites`: models by name, and TorchBench's files."""

from __future__ import annotations

from scripts.features.suites import models
from scripts.matrix.feature import Feature

FEATURE = Feature(
    "suites",
    models=models.of_suites,
    extend=models.extend,
    batch_size=models.batch_size,
    absolute_model=models.absolute,
)
