"""The features, and how a process of the driver loads them: Snakemake, the verbs, and those commands of scripts/stages/
that handle results (aggregate_results, clean, …).

The commands of stages that run in an environment load none: an import of this module would make their fingerprints
cover everything.
"""

from __future__ import annotations

import importlib

from scripts.core import checkout
from scripts.matrix import feature

NAMES = (
    "suites",
    "toolchains",
    "variants",
    "limits",
    "operators",
    "kernels",
    "profile",
    "compare",
    "reproduce",
    "report",
    "site",
)
"""The packages of scripts/features/ that declare a FEATURE in their module `feature`, in the order in which their
hooks are called."""


def load() -> None:
    """Load the features into feature.LOADED, in order; those that are there already stay."""
    for name in NAMES:
        if name not in feature.LOADED:
            declared = importlib.import_module(f"scripts.features.{name}.feature").FEATURE
            feature.LOADED[name] = declared


def rule_files() -> list[str]:
    """The files with the rules of the features that have rules, relative to the Snakefile."""
    files = (f"workflow/rules/{name}.smk" for name in NAMES)
    return [file for file in files if (checkout.ROOT / file).is_file()]
