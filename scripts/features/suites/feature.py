"""The feature `suites`: models by name, and TorchBench's files."""

from __future__ import annotations

from scripts.features.suites import suite_models, torchbench_models
from scripts.matrix.feature import Feature, Verb

FEATURE = Feature(
    "suites",
    models=suite_models.models,
    extend=torchbench_models.extend,
    batch_size=torchbench_models.batch_size,
    absolute_model=torchbench_models.absolute,
    verbs=(
        Verb(
            "suites",
            "scripts.features.suites.verbs.list_suites",
            "the models that packages have, by name",
        ),
    ),
)
