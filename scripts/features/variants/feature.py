"""The feature `variants`: other ways to compile a program. Remedies, flag sets, tuning and tuning specs."""

from __future__ import annotations

from scripts.features.variants import flag_checks, tuned_matrix, tuning_plan
from scripts.features.variants.plan import ModuleMaker, VariantsPlan
from scripts.features.variants.tuned_matrix import Tuning
from scripts.matrix.cell import Kind
from scripts.matrix.feature import Feature, Rows
from scripts.run import outputs

FEATURE = Feature(
    "variants",
    part=Tuning,
    read=tuned_matrix.read,
    entries=lambda tuning: {"target": tuning.targets},
    maker=ModuleMaker,
    adjust=tuning_plan.with_results,
    problems=flag_checks.problems,
    tables=outputs.files_of("tuned"),
    summary="scripts.features.variants.tuned_page",
    plan=VariantsPlan,
    rows=Rows((Kind.TUNING,), tuned_matrix.owns, tuned_matrix.cells, tuned_matrix.chain),
)
