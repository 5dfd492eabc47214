"""The feature `reproduce`: reproducers of cells, reductions, and bundles that are measured on other machines."""

from __future__ import annotations

from scripts.matrix.feature import Feature, Verb

FEATURE = Feature(
    "reproduce",
    verbs=(
        Verb(
            "bundle",
            "scripts.features.reproduce.verbs.bundle",
            "a reproducer of a cell that needs IREE's wheels alone",
        ),
        Verb(
            "reduce",
            "scripts.features.reproduce.verbs.bundle",
            "the same with a program of few operations that fails in the same way",
            "reduce",
        ),
    ),
)
