"""The feature `suites`: models by name, and TorchBench's files."""

from __future__ import annotations

from scripts.features.suites import models
from scripts.matrix.feature import Feature, Verb

FEATURE = Feature(
    "suites",
    models=models.of_suites,
    extend=models.extend,
    batch_size=models.batch_size,
    absolute_model=models.absolute,
    verbs=(
        Verb(
            "suites",
            "scripts.features.suites.verbs.list_suites",
            "the models that packages have, by name",
        ),
    ),
)
