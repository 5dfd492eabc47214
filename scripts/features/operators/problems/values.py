"""The values of operator arguments in trace files, and their text.

None, booleans, numbers, strings, lists, tuples and dicts are Python objects; this module has
classes for the others. The format is that of PyTorch's operator traces
(benchmarks/dynamo/microbenchmarks), which BackendBench's dataset also uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "c32": "complex32",
    "c64": "complex64",
    "c128": "complex128",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u8": "uint8",
    "b8": "bool",
}
"""torch's names of dtypes, by the names in the format."""
ABBREVIATIONS = {name: short for short, name in DTYPES.items()}
FLOATING = ("f64", "f32", "f16", "bf16")

Arguments = tuple[tuple, dict[str, Any]]
"""Positional and keyword arguments of a call."""


@dataclass(frozen=True)
class Tensor:
    """A tensor: shape, dtype as named in the format, and stride in elements if not contiguous."""

    shape: tuple[int, ...]
    dtype: str
    stride: tuple[int, ...] | None = None

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        stride = "" if self.stride is None else f", stride={self.stride}"
        return f"T({list(self.shape)}, {self.dtype}{stride})"


@dataclass(frozen=True)
class SparseTensor:
    """A sparse tensor. `layout`: torch's name. `nonzeros`: number of stored values, if known."""

    shape: tuple[int, ...]
    dtype: str
    layout: str
    is_coalesced: bool
    nonzeros: int | None = None

    @property
    def elements(self) -> int:
        """Number of elements, stored or not."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        stored = "" if self.nonzeros is None else f", {self.nonzeros}"
        return f"ST({list(self.shape)}, {self.dtype}, {self.layout}, {self.is_coalesced}{stored})"


@dataclass(frozen=True)
class Dtype:
    """A dtype by itself, as an argument."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Name:
    """A constant of torch, such as `torch.strided`."""

    path: str

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True)
class Device:
    """A device: its type, and its index if it has one."""

    type: str
    index: int | None = None

    def __str__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"


def show(value: Any) -> str:
    """Return the text of a value, which `parsing.value` reads.

    Raises TypeError if the format does not support the value.
    """
    match value:
        case Tensor() | SparseTensor() | Dtype() | Name() | Device():
            return str(value)
        case None | bool() | int() | float() | str():
            return repr(value)
        case list():
            return f"[{', '.join(map(show, value))}]"
        case tuple():
            return f"({', '.join(map(show, value))}{',' if len(value) == 1 else ''})"
        case dict():
            return "{" + ", ".join(f"{show(k)}: {show(v)}" for k, v in value.items()) + "}"
    raise TypeError(f"the format has no {type(value).__name__}: {value!r}")


def tensors(value: Any) -> Iterator[Tensor | SparseTensor]:
    """Yield the tensors in a value, from left to right."""
    match value:
        case Tensor() | SparseTensor():
            yield value
        case list() | tuple():
            for item in value:
                yield from tensors(item)
        case dict():
            yield from tensors(tuple(value.values()))


def replaced(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a copy of a value in which `change` is applied to all but lists, tuples and dicts."""
    if isinstance(value, tuple | list):
        return type(value)(replaced(item, change) for item in value)
    if isinstance(value, Mapping):
        return {key: replaced(item, change) for key, item in value.items()}
    return change(value)


def with_float_dtype(arguments: Arguments, dtype: str) -> Arguments:
    """Return the arguments with all floating-point dtypes replaced: of tensors, and dtype
    arguments.

    `dtype`: its name in the format. Strides do not change, because they are in elements.
    """

    def change(value: Any) -> Any:
        match value:
            case Tensor(shape, old, stride) if old in FLOATING:
                return Tensor(shape, dtype, stride)
            case SparseTensor(shape, old, layout, is_coalesced, nonzeros) if old in FLOATING:
                return SparseTensor(shape, dtype, layout, is_coalesced, nonzeros)
            case Dtype(old) if old in FLOATING:
                return Dtype(dtype)
            case Name(path) if dtype_of(path) in FLOATING:
                return Dtype(dtype)
        return value

    return replaced(arguments, change)


def dtype_of(path: str) -> str | None:
    """Return the format's name of a torch dtype such as `torch.float16`; None for other names."""
    aliases = {"half": "f16", "float": "f32", "double": "f64", "long": "i64", "int": "i32"}
    name = path.rpartition(".")[2]
    return ABBREVIATIONS.get(name) or aliases.get(name)


def shape_of(value: Any) -> tuple[int, ...] | None:
    """Return a list or tuple of sizes as a shape; None for other values."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return None
    if not all(is_integer(size) and size >= 0 for size in value):
        return None
    return tuple(value)


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer and not a boolean."""
    return isinstance(value, int) and not isinstance(value, bool)
