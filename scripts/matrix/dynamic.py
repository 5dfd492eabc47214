"""Programs for all sizes of some options of a model, beside those for one size.

A model whose entry has `dynamic` has a variant for each listed size: `bert~16` and `bert~128`, with a reference of its own. Each
frontend whose exporter declares DYNAMIC has an entry `<frontend>+dynamic` beside it. Its program is that of `bert`, exported
and compiled once; each variant calls it: `bert~16/torchmlir-torch+dynamic/llvm-cpu`. Runtimes that compile for a model have an
entry `<baseline>+dynamic`, which compiles for any size.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from scripts.matrix import cell, plugins
from scripts.matrix.entries import Baseline, Frontend, Model
from scripts.sources.registry import source_of

KEY = "dynamic"
"""The key of an entry of `models`, the argument of torch.compile, and the name in the end of other entries' names."""
SUFFIX = cell.DYNAMIC_SUFFIX


def of_sizes(model: Model) -> Iterator[Model]:
    """Yield the variants of a model: one for each combination of the listed sizes of its options, none without such options."""
    if not model.dynamic:
        return
    for values in itertools.product(*(sizes.values for sizes in model.dynamic.values())):
        sizes = dict(zip(model.dynamic, values, strict=True))
        name = f"{model.name}{cell.SIZES}{'-'.join(map(str, values))}"
        options = source_of(model.file).with_sizes(model.options, sizes)
        yield dataclasses.replace(model, name=name, options=options)


def problems(model: Model) -> Iterator[str]:
    """Yield error messages about the sizes of a model."""
    for option, sizes in model.dynamic.items():
        place = f"{model.where}.{KEY}.{option}"
        for value in sizes.values:
            if not sizes.allows(value):
                yield f"{place}.values: found {value}, expected {sizes}"
        own = source_of(model.file).sizes(model.options).get(option)
        if isinstance(own, int) and not sizes.allows(own):
            yield f"{model.where}.{option}: found {own}, expected {sizes}, as {place} says"
        if len(sizes.probes()) < 2:
            yield f"{place}: found {sizes}, expected two sizes or more; set the option itself to a single one"


def frontends(
    entries: Mapping[str, Frontend], models: Iterable[Model], root: Path = plugins.ROOT
) -> dict[str, Frontend]:
    """Return the entries, and those for all sizes where a model has them. `root`: the folder of scripts/."""
    with_dynamic = dict(entries)
    for frontend in entries.values() if _any(models) else ():
        # What is wrong with an exporter's file is said by the checks of entries.
        with contextlib.suppress(OSError, plugins.DeclarationError):
            if frontend.test == "eval" and plugins.exporter(frontend.exporter, root).dynamic:
                name = frontend.name + SUFFIX
                with_dynamic[name] = dataclasses.replace(frontend, name=name)
    return with_dynamic


def baselines(
    entries: Mapping[str, Baseline], models: Iterable[Model], root: Path = plugins.ROOT
) -> dict[str, Baseline]:
    """The same of baselines: those of a runtime that takes arguments of torch.compile, without own ones."""
    with_dynamic = dict(entries)
    for baseline in entries.values() if _any(models) else ():
        with contextlib.suppress(OSError, plugins.DeclarationError):
            if "compile" in plugins.runtime(baseline.runtime, root).takes and not baseline.compile:
                name = baseline.name + SUFFIX
                with_dynamic[name] = dataclasses.replace(baseline, name=name, compile={KEY: True})
    return with_dynamic


def is_for(entry: Frontend | Baseline, model: Model, test: str = "eval") -> bool:
    """Whether an entry is for a test of a model: one for all sizes is for forward passes of models that have them."""
    return not cell.is_dynamic(entry.name) or (bool(model.dynamic) and test == "eval")


def _any(models: Iterable[Model]) -> bool:
    return any(model.dynamic for model in models)
