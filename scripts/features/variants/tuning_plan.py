"""The rules' view of tuning: what is tried for a model on a target, and the files that this needs.

And the results of earlier tuning that the targets of a run use (`tuned: auto`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from scripts.core.machine import cpu_name, physical_cores
from scripts.features.variants import flag_sets, tuned_matrix, tuning
from scripts.features.variants.remedy_plan import Remedies
from scripts.features.variants.search.candidates import Candidate, Search
from scripts.features.variants.tuning import AS_CONFIGURED, TUNED, Result
from scripts.iree import tools, tuning_spec
from scripts.iree.backends import BACKENDS
from scripts.matrix import plugins
from scripts.matrix.cell import Cell, Kind
from scripts.matrix.entries import Choice, Model, Target
from scripts.matrix.matrix import Matrix
from scripts.matrix.stage import IREE_ENV, STATUS
from scripts.matrix.stages import STAGES
from scripts.run import environments
from scripts.run.options import compile_options

TUNE = STAGES["tune"]
MODULES = {TUNED: "tuned.vmfb", AS_CONFIGURED: "default.vmfb"}
"""The modules that the stage makes, by the frontend of the rows that have them."""


class Tuning:
    """Answers the rules' questions about tuning. `matrix`: the models' own, without the kernels."""

    def __init__(self, matrix: Matrix, remedies: Remedies) -> None:
        self._matrix = matrix
        self._remedies = remedies

    def is_row(self, wildcards) -> bool:
        """Whether the cell of a verification is a row of results/tuned.csv."""
        return wildcards.frontend in tuning.FRONTENDS

    def made(self, wildcards, file: str = "") -> str:
        """A file of the stage that has made the module of such a row; without `file`, the module."""
        return TUNE.path(_cell(wildcards), file or MODULES[wildcards.frontend])

    def exports(self, file: str, wildcards) -> list[str]:
        """A file of every export whose program may be compiled for a model."""
        of = [
            Cell.of(Kind.PROGRAM, model=wildcards.model, frontend=frontend)
            for frontend in tuned_matrix.frontends(self._matrix)
        ]
        return [STAGES["export"].path(one, file) for one in of]

    def target(self, wildcards) -> Target:
        """The target that a model is tuned for, with its overrides for the model."""
        model = self._matrix.models[wildcards.model]
        return tuned_matrix.part(self._matrix).targets[wildcards.target].of(model)

    def specs(self, wildcards) -> list[str]:
        """The tuning specs that the target's own flags name, as inputs (see Options.tuning_specs)."""
        found = tuned_matrix.candidates(self._matrix, wildcards.model, wildcards.target)
        named = (tuning_spec.named(one.variant.flags) for one in found)
        return list(dict.fromkeys(str(path) for path in named if path))

    def search(self, wildcards) -> str:
        """What is searched for a model on a target, as text for the command line."""
        target, table = self.target(wildcards), flag_sets.table()
        found = tuned_matrix.candidates(self._matrix, wildcards.model, wildcards.target)
        used = {name for one in found for name in (*one.needs, *one.avoid)}
        properties = {name: texts for name, texts in table.properties.items() if name in used}
        candidates = tuple(self._candidate(wildcards.model, target, one) for one in found)
        of = tuned_matrix.part(self._matrix)
        specs = of.specs if BACKENDS[target.backend].tuning_specs else 0.0
        flag = tuning_spec.FLAG if specs else ""
        return Search(candidates, properties, of.budget_s, of.keep, specs, flag).to_text()

    def _candidate(self, model: str, target: Target, declared: tuning.Candidate) -> Candidate:
        variant = declared.variant
        exported = Cell.of(Kind.PROGRAM, model=model, frontend=variant.frontend)
        return Candidate(
            name=declared.name,
            frontend=variant.frontend,
            opt_level=variant.opt_level,
            flags=variant.flags,
            options=tuple(compile_options(target, variant.opt_level, variant.flags)),
            program=STAGES["export"].path(exported, "program.mlir"),
            export=STAGES["export"].path(exported, STATUS),
            configured=declared.configured,
            needs=declared.needs,
            avoid=declared.avoid,
            hang=self._remedies.known_hang(model, target, variant),
        )


def _cell(wildcards) -> Cell:
    return Cell.of(Kind.TUNING, model=wildcards.model, target=wildcards.target)


def with_results(matrix: Matrix, folder: Path = tuning.FOLDER) -> tuple[Matrix, list[str]]:
    """Return a matrix whose targets use the kept results of tuning, where their entries ask for that.

    And messages about results that are not used because they are of something else. Raises ConfigError
    for a file that cannot be read.
    """
    notes: list[str] = []
    targets = {
        name: dataclasses.replace(target, choices=dict(_choices(matrix, target, folder, notes)))
        if target.tuned
        else target
        for name, target in matrix.targets.items()
    }
    return dataclasses.replace(matrix, targets=targets), notes


def _choices(
    matrix: Matrix, target: Target, folder: Path, notes: list[str]
) -> Iterator[tuple[str, Choice]]:
    """Yield what a target uses for each model."""
    for model in matrix.models.values():
        path = tuning.path_of(model.name, target.name, folder)
        found = tuning.read(path)
        if found is None or not found.kept or found.frontend is None:
            continue
        if found.frontend not in matrix.frontends:  # of this run; nothing to use it for
            continue
        if other := _difference(matrix, model, target, found) or tuning.spec_problem(found.flags):
            notes.append(f"{path} is not used: {other}")
            continue
        yield model.name, Choice(found.frontend, found.opt_level or "", found.flags, str(path))


def _difference(matrix: Matrix, model: Model, target: Target, found: Result) -> str:
    """How a result differs from what would be compiled and measured now; "" if it does not.

    The driver knows the name of this machine's CPU. Of another device it knows only what programs
    are compiled for.
    """
    assert found.frontend is not None
    now: dict[str, object] = {
        "options of the model": model.options,
        "backend": target.backend,
        "arch": target.arch,
        "device": target.device,
    }
    then: dict[str, object] = {
        "options of the model": found.options,
        "backend": found.backend,
        "arch": found.arch,
        "device": found.device,
    }
    if target.on_cpu:
        now |= {"CPU": cpu_name(), "threads": matrix.measure.get("threads") or physical_cores()}
        then |= {"CPU": found.device_name, "threads": found.threads}
    for package, version in versions(matrix, found.frontend).items():
        now[package], then[package] = version, found.versions.get(package)
    return next(
        (f"{key}: {then[key]}; now: {now[key]}" for key in now if now[key] != then[key]),
        "",
    )


def versions(matrix: Matrix, frontend: str) -> dict[str, str]:
    """The versions on which a module of a frontend's program depends, by the names of records."""
    declared = matrix.all_frontends()[frontend]
    pins = environments.pins(declared.env)
    called = plugins.exporter(declared.exporter).versions
    found = {name: pins[package] for package, name in called.items() if package in pins}
    return found | {"iree": environments.pins(IREE_ENV)[tools.PACKAGE]}
