"""The feature `suites`: models by name, and TorchBench's files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scripts.features.suites import suites, torchbench
from scripts.matrix import feature
from scripts.matrix.entries import Model
from scripts.matrix.feature import Draft, Feature, Verb
from scripts.matrix.models import model_of, variants, with_sizes


def models(draft: Draft) -> dict[str, Model]:
    """The models that `suites:` names. Errors, also those in a TorchBench file, are added to those of the draft."""
    torchbench.read_torchbench(draft.config.get(suites.TORCHBENCH), draft.root, draft.problems)
    checkout = (draft.config.get(suites.TORCHBENCH) or {}).get("path")
    try:
        if checkout:  # whether or not a suite needs it
            suites.names(suites.TORCHBENCH, draft.root, checkout)
        named = [entry for entry in draft.config.get("suites") or [] if not _is_anothers(entry)]
        listed = suites.entries(named, draft.root, checkout)
    except suites.SuiteError as error:
        draft.problems.append(str(error))
        return {}
    own: dict[str, Model] = {}
    for entry in listed:
        options = {"name": entry.name} | entry.options
        for name, family, variant in variants(entry.cell, options):
            if name in draft.known["models"] or name in own:
                draft.problems.append(f"suites.{entry.where}: {name} is the name of another model")
            own[name] = model_of(
                name, family, variant, file=entry.file, suite=entry.suite, known_as=entry.name
            )
    return with_sizes(own)


def _is_anothers(entry: str | Mapping[str, Any]) -> bool:
    """Whether an entry of `suites:` is of a suite that another feature has: `kernel/<name>`."""
    name = entry if isinstance(entry, str) else next(iter(entry))
    others = {declared.suite for declared in feature.LOADED.values() if declared.suite}
    return str(name).partition("/")[0] in others


FEATURE = Feature(
    "suites",
    models=models,
    extend=torchbench.extend,
    batch_size=torchbench.batch_size,
    absolute_model=torchbench.absolute,
    verbs=(
        Verb(
            "suites",
            "scripts.features.suites.verbs.list_suites",
            "the models that packages have, by name",
        ),
    ),
)
