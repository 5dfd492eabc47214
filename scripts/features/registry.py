"""The features, and how a process of the driver loads them.

Stages load none: an import of this module would make their fingerprints cover everything.
"""

from __future__ import annotations

import importlib

from scripts.matrix import feature

NAMES = ("suites", "toolchains", "variants", "operators", "kernels")
"""The packages of scripts/features/ that declare a FEATURE in their module `feature`, in the order in which they are asked."""


def load() -> None:
    """Load the features into feature.LOADED, in order; those that are there already stay."""
    for name in NAMES:
        if name not in feature.LOADED:
            declared = importlib.import_module(f"scripts.features.{name}.feature").FEATURE
            feature.LOADED[name] = declared
