"""The kernels of a configuration as models: one for each kernel, dtype and shape."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from scripts.features.kernels import kernels
from scripts.features.kernels.kernels import Kernel, KernelError
from scripts.matrix import reading
from scripts.matrix.entries import Model
from scripts.torch_model import source

PREFIX = f"{kernels.SUITE}/"
"""The beginning of a kernel's name in `suites:`."""
DEFAULT_DTYPE = "bf16"
_PIPELINE_KEYS = ("dtype", "shape", "max_bytes", "tolerance")
"""Keys of a kernel's entry that are not options of its functions."""


def _selected(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The patterns of kernels and the options of each: of `kernels.select`, then of `suites:`."""
    for prefix, entries in (
        ("", config["kernels"].get("select", ["*"])),
        (PREFIX, config.get("suites") or []),
    ):
        for entry in entries:
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
    for pattern, own in _selected(config):
        matched = [name for name in there if fnmatchcase(name, pattern)]
        if there and not matched:
            problems.append(f"kernels.select: {reading.unknown('kernel', pattern, there)}")
        for name in matched:
            options[name] = {**options.get(name, {}), **own}
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
    family = f"{kernels.SUITE}-{kernel.name}"
    options = {key: value for key, value in entry.items() if key not in _PIPELINE_KEYS}
    for dtype in [dtypes] if isinstance(dtypes, str) else dtypes:
        suffix = [] if isinstance(dtypes, str) else [dtype]
        for shape in _shapes(kernel, entry, dtype):
            yield Model(
                name="-".join([family, *suffix, shape]),
                file=kernel.file,
                suite=kernels.SUITE,
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
