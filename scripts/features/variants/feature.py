"""The feature `variants`: other ways to compile a program. Remedies, flag sets and tuning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scripts.features.variants import (
    flag_checks,
    kept_results,
    tables,
    tuned_matrix,
)
from scripts.features.variants.plan import ModuleMaker, VariantsPlan
from scripts.features.variants.tuned_matrix import Tuning
from scripts.matrix import reading, stages
from scripts.matrix.cell import Kind
from scripts.matrix.feature import Feature, Rows


def target(
    name: str, entry: Mapping[str, Any], config: Mapping[str, Any], problems: list[str]
) -> dict[str, Any]:
    """What a target tries where a compilation fails, what it does not run, and whether it uses results of tuning."""
    backend, wanted, table = entry["backend"], entry.get("remedies"), tables.remedies()
    tuned = {"tuned": entry.get("tuned") == kept_results.AUTO}
    if unknown := [named for named in wanted or () if named not in table.remedies]:
        problems += [
            f"targets.{name}.remedies: {reading.unknown('remedy', named, table.remedies)}"
            for named in unknown
        ]
        return tuned
    if not config.get("remedies", True) or wanted is False:
        return tuned
    return tuned | {"remedies": table.for_target(backend, wanted or None), "hangs": table.hangs}


FEATURE = Feature(
    "variants",
    target=target,
    flags=lambda entries, backend: tables.flag_sets().expanded(entries, backend),
    reserved=dict.fromkeys(tuned_matrix.FRONTENDS, "the name of a row of results/tuned.csv"),
    part=Tuning,
    read=tuned_matrix.read,
    entries=lambda tuning: {"target": tuning.targets},
    maker=ModuleMaker,
    adjust=kept_results.with_results,
    problems=flag_checks.problems,
    csv="tuned",
    modules={
        "row_set": "scripts.features.variants.tuned_row_set",
        "docs": "scripts.features.variants.document",
        "remedies": "scripts.features.variants.tables",
    },
    plan=VariantsPlan,
    rows=Rows(
        (Kind.TUNING,),
        tuned_matrix.owns,
        tuned_matrix.cells,
        tuned_matrix.chain,
        timed=lambda matrix, row: (stages.STAGES["time_tuned"], matrix.group(row)),
    ),
)
