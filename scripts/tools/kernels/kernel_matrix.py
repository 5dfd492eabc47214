"""The feature `kernels`: the kernels of a configuration as models, one for each kernel, dtype and shape, and the matrix of
results/kernels.csv: these models with targets and a stopping rule of their own.

A kernel is a model file in models/kernels/, read without importing it (it imports torch), that also declares, as plain literals:

- DIMENSIONS: the names of the sizes in a shape, in order;
- SHAPES: the shapes that are measured (`32768x256`), or an import of such a constant under this name;
- READS, WRITES: the tensors that every implementation has to move, each as a product of sizes. Its type is
  that of the entry, unless one is named: `rows columns`, `rows: i64`, `outer inner /32` (divided by 32);
- FLOPS: floating-point operations, as products of sizes with their factors;
- PARTLY_READ (optional): inputs of which only a part is read, so that they are larger than declared;
- TOLERANCE (optional): as an entry's `tolerance`.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from scripts.config import cell, entries, expansion, reading
from scripts.config.entries import Model, by_threads
from scripts.config.feature import Draft, Feature
from scripts.config.models import KERNELS
from scripts.config.plugins import DeclarationError, literal
from scripts.config.rows import Matrix
from scripts.frontends.torch_model import source
from scripts.run.plan import Aggregation, Plan

FOLDER = Path("models/kernels")
BITS = {"f64": 64, "i64": 64, "f32": 32, "i32": 32, "f16": 16, "bf16": 16, "i8": 8, "i4": 4}
"""Bits of an element by its type."""


class KernelError(ValueError):
    """A kernel's file declares something wrong, or a shape is wrong. Names the file and what was expected."""


@dataclass(frozen=True)
class Kernel:
    """A kernel, as its file declares it (see above)."""

    name: str
    file: str
    dimensions: tuple[str, ...]
    shapes: tuple[str, ...]
    reads: Mapping[str, str]
    writes: Mapping[str, str]
    flops: Mapping[str, float]
    partly_read: tuple[str, ...]
    tolerance: Mapping[str, Any]

    def sizes(self, shape: str) -> dict[str, int]:
        """The size of each dimension in a shape. Raises KernelError for a shape of another form."""
        parts = shape.split("x")
        whole = len(parts) == len(self.dimensions) and all(p.isdecimal() for p in parts)
        if not whole or not all(sizes := [int(part) for part in parts]):
            expected = "x".join(f"<{name}>" for name in self.dimensions)
            raise KernelError(f"{self.file}: found shape {shape!r}, expected {expected}")
        return dict(zip(self.dimensions, sizes, strict=True))

    def tensor_bytes(self, shape: str, dtype: str) -> dict[str, int]:
        """The bytes of each tensor that has to be read or written; `dtype` is the entry's."""
        sizes = self.sizes(shape)
        bytes_of = {}
        for name, declared in (*self.reads.items(), *self.writes.items()):
            terms, _, own = declared.partition(":")
            bits = _product(terms, sizes) * BITS[own.strip() or dtype]
            bytes_of[name] = math.ceil(bits / 8)
        return bytes_of

    def memory_bytes(self, shape: str, dtype: str) -> int:
        """The bytes that have to be moved in a call: all reads and writes, each once."""
        return sum(self.tensor_bytes(shape, dtype).values())

    def flop(self, shape: str) -> float:
        """The floating-point operations of a call."""
        sizes = self.sizes(shape)
        return sum(factor * _product(terms, sizes) for terms, factor in self.flops.items())


def _product(terms: str, sizes: Mapping[str, int]) -> float:
    """The value of `rows columns /32`."""
    product = 1.0
    for word in terms.split():
        product = product / int(word[1:]) if word[0] == "/" else product * sizes[word]
    return product


def names(root: Path) -> list[str]:
    """The names of all kernels of the project at `root`, sorted."""
    return sorted(p.stem for p in (root / FOLDER).glob("*.py") if p.stem[0] != "_")


def read_kernel(name: str, root: Path) -> Kernel:
    """The kernel of that name. Raises KernelError if its file cannot be read as one, OSError without a file."""
    path = root / FOLDER / f"{name}.py"
    stat = path.stat()
    return _read(path, root, stat.st_mtime_ns, stat.st_size)


@functools.cache
def _read(path: Path, root: Path, *_: int) -> Kernel:
    """The kernel of a file as it is now."""
    try:
        kernel = Kernel(
            path.stem,
            str(FOLDER / path.name),
            dimensions=literal(path, "DIMENSIONS", tuple[str, ...]),
            shapes=literal(*_place_of_shapes(path, root), tuple[str, ...]),
            reads=literal(path, "READS", dict[str, str]),
            writes=literal(path, "WRITES", dict[str, str]),
            flops=literal(path, "FLOPS", dict[str, float]),
            partly_read=literal(path, "PARTLY_READ", tuple[str, ...], ()),
            tolerance=literal(path, "TOLERANCE", dict[str, Any], {}),
        )
    except DeclarationError as error:
        raise KernelError(str(error)) from error
    _check(kernel)
    return kernel


def _place_of_shapes(path: Path, root: Path) -> tuple[Path, str]:
    """The file and the name of the SHAPES of a kernel: its own, or a constant of another module that it imports as
    SHAPES."""
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError as error:
        raise KernelError(f"{path}: {error.msg} in line {error.lineno}") from error
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == "SHAPES":
                    return root.joinpath(*node.module.split(".")).with_suffix(".py"), alias.name
    return path, "SHAPES"


def _check(kernel: Kernel) -> None:
    """Raise KernelError for a shape, a size or a type that does not fit the rest."""
    if not kernel.shapes:
        raise KernelError(f"{kernel.file}: SHAPES: found none, expected at least one")
    for shape in kernel.shapes:
        kernel.sizes(shape)
    declared = {**kernel.reads, **kernel.writes}
    for where, text in (*declared.items(), *((terms, terms) for terms in kernel.flops)):
        terms, colon, dtype = text.partition(":")
        if colon and dtype.strip() not in BITS:
            raise KernelError(
                f"{kernel.file}: {where}: found type {dtype.strip()!r}, allowed is one of {', '.join(BITS)}"
            )
        for word in terms.split():
            if word not in kernel.dimensions and not (word[0] == "/" and word[1:].isdecimal()):
                raise KernelError(
                    f"{kernel.file}: {where}: found {word!r}, allowed is one of "
                    f"{', '.join(kernel.dimensions)}, or a divisor such as /32"
                )


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
    there = names(root)
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
            kernel = read_kernel(name, root)
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
