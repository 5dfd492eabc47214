"""The feature `variants`: other ways to compile a program. Remedies, flag sets and tuning."""

from __future__ import annotations

from scripts.features.variants import tuned_matrix
from scripts.features.variants.plan import ModuleMaker, VariantsPlan
from scripts.features.variants.tuned_matrix import Tuning
from scripts.matrix import stages
from scripts.matrix.cell import Kind
from scripts.matrix.feature import Feature, Rows

FEATURE = Feature(
    "variants",
    part=Tuning,
    read=tuned_matrix.read,
    entries=lambda tuning: {"target": tuning.targets},
    maker=ModuleMaker,
    csv="tuned",
    row_set="scripts.features.variants.tuned_row_set",
    plan=VariantsPlan,
    rows=Rows(
        (Kind.TUNING,),
        tuned_matrix.owns,
        tuned_matrix.cells,
        tuned_matrix.chain,
        timed=lambda matrix, row: (stages.STAGES["time_tuned"], matrix.group(row)),
    ),
)
