"""The matrix of results/kernels.csv: kernels at shapes as models, with targets and a stopping rule of their own."""

from __future__ import annotations

import dataclasses
from fnmatch import fnmatchcase
from typing import Any

from scripts.features.kernels import kernels
from scripts.matrix import cell, checks, entries, reading, threads, toolchains
from scripts.matrix.entries import Model, by_threads
from scripts.matrix.feature import Draft
from scripts.matrix.matrix import Matrix

KINDS = ("frontends", "targets", "baselines")


def read(draft: Draft, matrix: Matrix) -> Matrix | None:
    """The matrix of results/kernels.csv; None if the configuration declares no kernels. `matrix`: that of the models."""
    section, selections, known = draft.config.get("kernels"), draft.selections, draft.known
    declared = {n: model for n, model in draft.named.items() if model.suite == kernels.SUITE}
    if section is None or not declared:
        return None
    chosen: dict[str, Any] = {}
    for kind in KINDS:
        # A configuration of one's own may lack what the shipped `kernels` names.
        names = [name for name in known[kind] if cell.selects(section.get(kind, ()), name)]
        if kind in selections:
            names = reading.select(kind.removesuffix("s"), list(known[kind]), selections[kind])
        chosen[kind] = {name: known[kind][name] for name in names}
    programs = entries.programs(chosen["baselines"].values(), declared.values(), known["frontends"])
    draft.problems += checks.entry_problems(chosen, programs, draft.root, False, known["frontends"])
    numbers = threads.numbers(matrix.measure)
    chosen |= {kind: by_threads(chosen[kind], numbers) for kind in ("targets", "baselines")}
    return dataclasses.replace(
        matrix,
        models=_selected(declared, selections.get("kernels"), draft.problems),
        **chosen,
        programs=programs,
        measure={**matrix.measure, **section.get("measure", {})},
        tests=("eval",),
        expect={},
        overrides={},
        parts={},
        toolchains=toolchains.pinned(),
    )


def _selected(
    models: dict[str, Model], wanted: str | None, problems: list[str]
) -> dict[str, Model]:
    """The models that `--config kernels=` selects by the names of kernels or models; all without it."""
    if wanted is None:
        return models
    names = {name: {model.torchbench, model.family, name} for name, model in models.items()}
    chosen: set[str] = set()
    for pattern in filter(None, (part.strip() for part in wanted.split(","))):
        matched = {n for n, all_ in names.items() if any(fnmatchcase(a, pattern) for a in all_)}
        if not matched:
            kinds = dict.fromkeys(model.torchbench for model in models.values())
            problems.append(
                f"kernels: {reading.unknown('kernel', pattern, kinds)} (with shapes within max_bytes)"
            )
        chosen |= matched
    return {name: model for name, model in models.items() if name in chosen}
