"""Kernels: what the files of models/kernels/ declare, read without importing them (they import torch).

A kernel is a model file that also declares, as plain literals:

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
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.config.plugins import DeclarationError, literal

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


def read(name: str, root: Path) -> Kernel:
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
