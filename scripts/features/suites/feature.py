"""The feature `suites`: models by name, and TorchBench's files."""

from __future__ import annotations

from scripts.features.suites import suite_models
from scripts.matrix.feature import Feature, Verb

FEATURE = Feature(
    "suites",
    models=suite_models.of_suites,
    extend=suite_models.extend,
    batch_size=suite_models.batch_size,
    absolute_model=suite_models.absolute,
    verbs=(
        Verb(
            "suites",
            "scripts.features.suites.verbs.list_suites",
            "the models that packages have, by name",
        ),
    ),
)
