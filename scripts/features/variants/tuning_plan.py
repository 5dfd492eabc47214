"""The rules' view of tuning: what is tried for a model on a target, and the files that this needs.

And the results of earlier tuning that the targets of a run use (`tuned: auto`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from scripts.core.machine import cpu_name, physical_cores
from scripts.features.variants import candidates, flag_sets, tuned_matrix, tuning
from scripts.features.variants.candidates import Search
from scripts.features.variants.remedy_plan import Remedies, program
from scripts.features.variants.tuning import AS_CONFIGURED, TUNED, Result
from scripts.iree import tuning_spec
from scripts.iree.backends import BACKENDS
from scripts.matrix import plugins
from scripts.matrix.cell import Cell, Kind
from scripts.matrix.entries import Choice, Model, Target
from scripts.matrix.env_files import COMPILER
from scripts.matrix.matrix import Matrix
from scripts.matrix.stage import IREE_ENV
from scripts.matrix.stages import STAGES
from scripts.run import environments

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
        of = Cell.of(Kind.TUNING, model=wildcards.model, target=wildcards.target)
        return TUNE.path(of, file or MODULES[wildcards.frontend])

    def exports(self, file: str, wildcards) -> list[str]:
        """A file of every export whose program may be compiled for a model."""
        return [
            STAGES["export"].path(program(wildcards.model, frontend), file)
            for frontend in tuned_matrix.frontends(self._matrix)
        ]

    def target(self, wildcards) -> Target:
        """The target that a model is tuned for, with its overrides for the model."""
        model = self._matrix.models[wildcards.model]
        return tuned_matrix.part(self._matrix).targets[wildcards.target].of(model)

    def specs(self, wildcards) -> list[str]:
        """The tuning specs that the target's own flags name, as inputs (see Options.tuning_specs)."""
        candidates = tuned_matrix.candidates(self._matrix, wildcards.model, wildcards.target)
        named = (tuning_spec.named(candidate.flags) for candidate in candidates)
        return list(dict.fromkeys(str(path) for path in named if path))

    def search(self, wildcards) -> str:
        """What is searched for a model on a target, as text for the command line."""
        target, settings = self.target(wildcards), tuned_matrix.part(self._matrix)
        declared = tuned_matrix.candidates(self._matrix, wildcards.model, wildcards.target)
        used = {name for candidate in declared for name in (*candidate.needs, *candidate.avoid)}
        known = flag_sets.table().properties
        specs = settings.specs if BACKENDS[target.backend].tuning_specs else 0.0
        search = Search(
            tuple(self._remedies.completed(way, wildcards.model, target) for way in declared),
            {name: texts for name, texts in known.items() if name in used},
            settings.budget_s,
            settings.keep,
            specs,
            tuning_spec.FLAG if specs else "",
        )
        return candidates.to_text(search)


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
        result = tuning.read(path)
        if result is None or not result.kept or result.frontend is None:
            continue
        if result.frontend not in matrix.frontends:  # of this run; nothing to use it for
            continue
        if problem := _difference(matrix, model, target, result) or tuning.spec_problem(
            result.flags
        ):
            notes.append(f"{path} is not used: {problem}")
            continue
        choice = Choice(result.frontend, result.opt_level or "", result.flags, str(path))
        yield model.name, choice


def _difference(matrix: Matrix, model: Model, target: Target, result: Result) -> str:
    """How a result differs from what would be compiled and measured now; "" if it does not.

    The driver knows the name of this machine's CPU. Of another device it knows only what programs
    are compiled for.
    """
    assert result.frontend is not None
    pairs: dict[str, tuple[object, object]] = {
        "options of the model": (result.options, model.options),
        "backend": (result.backend, target.backend),
        "arch": (result.arch, target.arch),
        "device": (result.device, target.device),
    }
    if target.on_cpu:
        pairs["CPU"] = result.device_name, cpu_name()
        threads = matrix.measure.get("threads") or physical_cores()
        pairs["threads"] = result.threads, threads
    for package, version in versions(matrix, result.frontend).items():
        pairs[package] = result.versions.get(package), version
    differing = (f"{key}: {then}; now: {now}" for key, (then, now) in pairs.items() if then != now)
    return next(differing, "")


def versions(matrix: Matrix, frontend: str) -> dict[str, str]:
    """The versions on which a module of a frontend's program depends, by the names of records."""
    declared = matrix.all_frontends()[frontend]
    pins = environments.pins(declared.env)
    called = plugins.exporter(declared.exporter).versions
    found = {name: pins[package] for package, name in called.items() if package in pins}
    return found | {"iree": environments.pins(IREE_ENV)[COMPILER]}
