"""The models that `suites:` names, and what those of TorchBench have of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.features.suites import suites, torchbench_pass
from scripts.matrix import feature
from scripts.matrix.entries import Model
from scripts.matrix.feature import Draft
from scripts.matrix.matrix import Matrix
from scripts.matrix.models import model_of, variants

TORCHBENCH = "torchbench"
"""The suite whose models are in a checkout, with batch sizes of their own."""


def of_suites(draft: Draft) -> dict[str, Model]:
    """The models that `suites:` names."""
    config, root, problems = draft.config, draft.root, draft.problems
    torchbench_pass.read(config.get(TORCHBENCH), root, problems)  # what is wrong with the file
    checkout = (config.get(TORCHBENCH) or {}).get("path")
    try:
        named = [entry for entry in config.get("suites") or [] if not _is_anothers(entry)]
        entries = suites.entries(named, root, checkout)
    except suites.SuiteError as error:
        problems.append(str(error))
        return {}
    models: dict[str, Model] = {}
    taken = {*draft.known["models"]}
    for suite_entry in entries:
        options = {"name": suite_entry.name} | suite_entry.options
        for name, family, entry in variants(suite_entry.cell, options):
            if name in taken:
                problems.append(f"suites.{suite_entry.where}: {name} is the name of another model")
            taken.add(name)
            models[name] = model_of(
                name,
                family,
                entry,
                file=suite_entry.file,
                suite=suite_entry.suite,
                known_as=suite_entry.name,
            )
    return models


def _is_anothers(entry: str | Mapping[str, Any]) -> bool:
    """Whether an entry of `suites:` is of a suite that another feature has: `kernel/<name>`."""
    name = entry if isinstance(entry, str) else next(iter(entry))
    own = {declared.suite for declared in feature.LOADED.values() if declared.suite}
    return str(name).partition("/")[0] in own


def extend(draft: Draft, matrix: Matrix) -> Matrix:
    """The matrix with the changes of a TorchBench file, if there is one, and with the batch sizes of TorchBench's models
    as options."""
    if lists := torchbench_pass.read(draft.config.get(TORCHBENCH), draft.root, []):
        matrix = torchbench_pass.apply(matrix, lists, draft.root)
    return dataclasses.replace(
        matrix, models={name: _sized(model) for name, model in matrix.models.items()}
    )


def _sized(model: Model) -> Model:
    if model.suite != TORCHBENCH or "batch_size" in model.options:
        return model
    options = model.options | {"batch_size": model.default_batch_size}
    return dataclasses.replace(model, options=options)


def batch_size(model: Model, root: Path) -> int | None:
    """The batch size that a model of TorchBench declares; None for other models."""
    if model.suite != TORCHBENCH:
        return None
    return suites.batch_size(model.options, model.options["name"], root)


def absolute(model: Model, root: Path) -> Model:
    """The model for a run in another folder: with the absolute path of TorchBench's checkout."""
    if model.suite != TORCHBENCH:
        return model
    path = str(root / Path(model.options["path"]).expanduser())
    return dataclasses.replace(model, options=model.options | {"path": path})
