"""The feature `kernels`: the kernels of a configuration as models, one for each kernel, dtype and shape, and the matrix of
results/kernels.csv: these models with targets and a stopping rule of their own."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from scripts.config import cell, entries, expansion, reading
from scripts.config.entries import Model, by_threads
from scripts.config.feature import Draft, Feature
from scripts.config.models import KERNELS
from scripts.config.rows import Matrix
from scripts.frontends.torch_model import source
from scripts.run.plan import Aggregation, Plan
from scripts.tools.kernels import kernels
from scripts.tools.kernels.kernels import Kernel, KernelError

PREFIX = f"{KERNELS}/"
"""The beginning of a kernel's name in `suites:`."""
DEFAULT_DTYPE = "bf16"
_PIPELINE_KEYS = ("dtype", "shape", "max_bytes", "tolerance")
"""Keys of a kernel's entry that are not options of its functions."""


def _patterns(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The patterns of kernels and the options of each: of `kernels.select`, then of `suites:`."""
    selected, suites = config["kernels"].get("select", ["*"]), config.get("suites") or []
    for prefix, listed_entries in (("", selected), (PREFIX, suites)):
        for entry in listed_entries:
            for name, options in [(entry, {})] if isinstance(entry, str) else entry.items():
                if str(name).startswith(prefix):
                    yield str(name).removeprefix(prefix), options or {}


def listed(config: Mapping[str, Any], root: Path, problems: list[str]) -> dict[str, Model]:
    """A model for each kernel, dtype and shape of the configuration.

    A later entry adds its options to those of an earlier one that matches the same kernel. Errors are
    appended to `problems`.
    """
    section = config.get("kernels")
    if section is None:
        return {}
    there = kernels.names(root)
    options: dict[str, dict[str, Any]] = {}
    for pattern, own in _patterns(config):
        matched = [name for name in there if fnmatchcase(name, pattern)]
        if there and not matched:
            problems.append(f"kernels.select: {reading.unknown('kernel', pattern, there)}")
        for name in matched:
            options[name] = {**options.get(name, {}), **own}
    if there and not options and not problems:
        problems.append('kernels.select: found [], expected kernels or globs, such as ["*"]')
    models: dict[str, Model] = {}
    for name, own in options.items():
        try:
            kernel = kernels.read(name, root)
            defaults = {key: section[key] for key in ("dtype", "max_bytes") if key in section}
            for model in _variants(kernel, {**defaults, **own}):
                source.check_options(root / model.file, model.options)
                models[model.name] = model
        except (KernelError, source.ModelFileError) as error:
            problems.append(f"kernels.{name}: {error}")
    return models


def _variants(kernel: Kernel, entry: Mapping[str, Any]) -> Iterator[Model]:
    """The kernel in each dtype, at each shape: those of the entry, or those declared that move at most
    `max_bytes` bytes."""
    dtypes = entry.get("dtype", DEFAULT_DTYPE)
    family = f"{KERNELS}-{kernel.name}"
    options = {key: value for key, value in entry.items() if key not in _PIPELINE_KEYS}
    for dtype in [dtypes] if isinstance(dtypes, str) else dtypes:
        suffix = [] if isinstance(dtypes, str) else [dtype]
        for shape in _shapes(kernel, entry, dtype):
            yield Model(
                name="-".join([family, *suffix, shape]),
                file=kernel.file,
                suite=KERNELS,
                options={**options, "dtype": dtype, "shape": shape},
                tolerance={**kernel.tolerance, **entry.get("tolerance", {})},
                torchbench=kernel.name,
                family=family,
            )


def _shapes(kernel: Kernel, entry: Mapping[str, Any], dtype: str) -> list[str]:
    if "shape" in entry:
        given = entry["shape"]
        shapes = [given] if isinstance(given, str) else list(given)
        for shape in shapes:
            kernel.sizes(shape)
        return shapes
    at_most = entry.get("max_bytes", math.inf)
    return [s for s in kernel.shapes if kernel.memory_bytes(s, dtype) <= at_most]


DEFAULTS = {
    "frontends": ("torchmlir-torch", "torchmlir-stablehlo", "torchxla-stablehlo"),
    "targets": ("llvm-cpu",),
    "baselines": ("eager", "inductor"),
}
"""What kernels are measured by where `kernels` does not say: those of these entries that a configuration has, or all if it has none."""


def read(draft: Draft, matrix: Matrix) -> Matrix | None:
    """The matrix of results/kernels.csv; None if the configuration declares no kernels. `matrix`: that of the models."""
    section, selections, known = draft.config.get("kernels"), draft.selections, draft.known
    declared = {n: model for n, model in draft.named.items() if model.suite == KERNELS}
    if section is None or not declared:
        return None
    chosen: dict[str, Any] = {}
    for kind, default in DEFAULTS.items():
        singular = kind.removesuffix("s")
        if kind in section:
            globs = section[kind]
            draft.problems += expansion.selection_problems(f"kernels.{kind}", singular, globs, known[kind])  # fmt: skip
        else:
            globs = [name for name in default if name in known[kind]] or ["*"]
        names = [name for name in known[kind] if cell.selects(globs, name)]
        if kind in selections:
            names = reading.select(singular, list(known[kind]), selections[kind])
        chosen[kind] = {name: known[kind][name] for name in names}
    programs = entries.programs(chosen["baselines"].values(), declared.values(), known["frontends"])
    draft.problems += expansion.entry_problems(chosen, programs, draft.root, known["frontends"])
    numbers = cell.thread_numbers(matrix.measure)
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
        toolchains=cell.pinned_toolchain(),
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


class KernelsPlan(Aggregation):
    """PLAN["kernels"]: the aggregation of the selected kernels."""

    def __init__(self, plan: Plan) -> None:
        part = plan.configured.parts.get("kernels")
        self._selected = bool(part and part.models)
        super().__init__(part or plan.configured, plan.modules)

    def results(self) -> list[str]:
        return super().results() if self._selected else []

    def plots(self) -> list[str]:
        """The plots of the selected kernels."""
        models = self.matrix.models.values() if self._selected else ()
        files = dict.fromkeys(model.file for model in models)
        return [f"results/kernels/{Path(file).stem}.svg" for file in files]


FEATURE = Feature(
    "kernels",
    part=Matrix,
    read=read,
    absolute=expansion.with_absolute_paths,
    named=lambda draft: listed(draft.config, draft.root, draft.problems),
    plan=KernelsPlan,
    csv="kernels",
    row_set="scripts.tools.kernels.rows",
)
