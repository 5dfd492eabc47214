"""The features, and how a process of the driver loads them: Snakemake, the verbs, and those commands of scripts/stages/
that handle results (aggregate_results, clean, …).

The commands of stages that run in an environment load none: an import of this module would make their fingerprints
cover everything.
"""

from __future__ import annotations

import importlib

from scripts.config import feature
from scripts.core import checkout

NAMES = (
    "toolchains",
    "variants",
    "limits",
    "operators",
    "fuzz",
    "kernels",
    "profile",
    "gpu_static",
    "compare",
    "reproduce",
    "report",
)
"""The packages of scripts/tools/, in the order of their rules."""
DECLARED = (
    "scripts.tools.toolchains.toolchain_environments",
    "scripts.tools.variants.variants_plan",
    "scripts.tools.operators.operators_plan",
    "scripts.tools.kernels.kernel_matrix",
    "scripts.tools.profile.profile_plan",
)
"""The modules that declare a FEATURE, in the order in which these are asked."""
VIEWS = (
    "scripts.tools.operators.report.problem_record",
    "scripts.tools.kernels.rows",
    "scripts.tools.profile.page",
    "scripts.tools.compare.page_views",
)
"""The modules whose VIEWS the report page has beside those of the rows, in the order of their tabs."""


def load() -> None:
    """Load the features into feature.LOADED, in order; those that are there already stay."""
    for module in DECLARED:
        declared = importlib.import_module(module).FEATURE
        feature.LOADED.setdefault(declared.name, declared)


def rule_files() -> list[str]:
    """The files with the rules of the features that have rules, relative to the Snakefile."""
    files = (f"workflow/rules/{name}.smk" for name in NAMES)
    return [file for file in files if (checkout.ROOT / file).is_file()]
