"""The values of operator arguments, and their text, which is read without evaluating it.

The format is that of PyTorch's operator traces (benchmarks/dynamo/microbenchmarks), which
BackendBench's dataset also uses. None, booleans, numbers, strings, lists, tuples and dicts are
written as in Python, also `inf` and `nan`; this module has classes for the other values.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "c32": "complex32", "c64": "complex64", "c128": "complex128",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8", "b8": "bool",
}  # fmt: skip
"""torch's names of dtypes, by the names in the format."""
ABBREVIATIONS = {name: short for short, name in DTYPES.items()}
FLOATING = ("f64", "f32", "f16", "bf16")
_ALIASES = {"half": "f16", "float": "f32", "double": "f64"}
"""Other names that torch has for floating-point dtypes."""

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
class Name:
    """A dtype as named in the format, or a constant of torch, such as `torch.strided`."""

    path: str

    @property
    def dtype(self) -> str | None:
        """The format's name of the dtype that this is; None for other names."""
        name = self.path.rpartition(".")[2]
        return self.path if self.path in DTYPES else ABBREVIATIONS.get(name) or _ALIASES.get(name)

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
    """Return the text of a value, which `read` reads. Raises TypeError if the format does not support the value."""
    match value:
        case Tensor() | SparseTensor() | Name() | Device():
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
    """Return the arguments with all floating-point dtypes replaced, of tensors and by themselves.
    `dtype`: its name in the format. Strides do not change, because they are in elements."""

    def change(value: Any) -> Any:
        match value:
            case Tensor() | SparseTensor() if value.dtype in FLOATING:
                return dataclasses.replace(value, dtype=dtype)
            case Name() if value.dtype in FLOATING:
                return Name(dtype)
        return value

    return replaced(arguments, change)


class ArgumentsError(ValueError):
    """The text is not in the format; names the column and what is wrong there."""


def read_arguments(text: str) -> Arguments:
    """Return the positional and keyword arguments of `((…), {…})`. Raises ArgumentsError."""
    match read(text):
        case (tuple() as args, dict() as kwargs) if all(isinstance(key, str) for key in kwargs):
            return args, kwargs
    raise ArgumentsError("column 1: expected ((arguments), {'name': value})")


def read(text: str) -> Any:
    """Return the value of a text. Raises ArgumentsError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # such as that of an unknown escape in a string
            parsed = ast.parse(text.strip(), mode="eval")
        return _value(parsed.body)
    except SyntaxError as error:
        raise ArgumentsError(f"column {max(1, error.offset or 1)}: {error.msg}") from error
    except (MemoryError, RecursionError) as error:
        raise ArgumentsError("column 1: too many levels") from error


def _value(node: ast.AST | None) -> Any:
    """The value of a syntax tree. Names and calls are those of the format."""
    match node:
        case ast.Constant(None | bool() | int() | float() | str() as constant):
            return constant
        case ast.List(items):
            return [_value(item) for item in items]
        case ast.Tuple(items):
            return tuple(_value(item) for item in items)
        case ast.Dict(keys, items):
            return {_key(k): _value(v) for k, v in zip(keys, items, strict=True)}
        case ast.UnaryOp(ast.USub(), operand):
            number = _value(operand)
            if isinstance(number, bool) or not isinstance(number, int | float):
                _fail(operand, f"expected a number, found {ast.unparse(operand)!r}")
            return -number
        case ast.Name() | ast.Attribute():
            return _named(node)
        case ast.Call():
            return _called(node)
    _fail(node, f"unexpected {ast.unparse(node)[:40]!r}" if node else "unexpected '**'")


def _key(node: ast.AST | None) -> str | int:
    key = _value(node)
    if not isinstance(key, str | int):
        _fail(node, "expected a name as key")
    return key


def _named(node: ast.Name | ast.Attribute) -> Any:
    name = ast.unparse(node)
    if name in ("inf", "nan"):
        return float(name)
    if name in DTYPES:
        return Name(name)
    if name.startswith(("torch.", "th.")):
        return Name(f"torch.{name.partition('.')[2]}")
    _fail(node, f"unknown name {name!r}")


def _called(node: ast.Call) -> Any:
    name = ast.unparse(node.func)
    make = _CALLS.get(name)
    if make is None:
        _fail(node, f"unknown call {name!r}, expected T, ST or torch.device")
    args = [_value(arg) for arg in node.args]
    named = {keyword.arg or "**": _value(keyword.value) for keyword in node.keywords}
    try:
        return make(*args, **named)
    except (TypeError, ValueError) as error:
        _fail(node, f"{name}: {str(error).removeprefix(f'{make.__name__}() ')}")


def _fail(node: Any, problem: str) -> NoReturn:
    raise ArgumentsError(f"column {node.col_offset + 1 if node else 1}: {problem}")


def _tensor(shape: Any, dtype: Any, stride: Any = None) -> Tensor:
    sizes = _sizes("shape", shape)
    if stride is None:
        return Tensor(sizes, _dtype(dtype))
    steps = _sizes("stride", stride)
    if len(steps) != len(sizes):
        raise ValueError(f"a stride of {len(steps)} numbers for a shape of {len(sizes)}")
    return Tensor(sizes, _dtype(dtype), steps)


def _sparse(
    shape: Any, dtype: Any, layout: Any, is_coalesced: Any, nonzeros: Any = None
) -> SparseTensor:
    if not isinstance(layout, Name) or not isinstance(is_coalesced, bool):
        raise ValueError("expected a layout of torch's, then True or False")
    if nonzeros is not None and not _is_integer(nonzeros):
        raise ValueError(f"found {show(nonzeros)}, expected a number of stored values")
    return SparseTensor(_sizes("shape", shape), _dtype(dtype), str(layout), is_coalesced, nonzeros)


def _device(type: Any, index: Any = None) -> Device:  # named as torch names them
    if not isinstance(type, str) or not (index is None or _is_integer(index)):
        raise ValueError("expected a name, and an index or none")
    name, colon, number = type.partition(":")
    if colon and (index is not None or not number.isdecimal()):
        raise ValueError(f"found {type!r}, expected a name such as 'cuda:0'")
    return Device(name, int(number) if colon else index)


_CALLS: dict[str, Callable[..., Any]] = {
    "T": _tensor,
    "ST": _sparse,
    "device": _device,
    "torch.device": _device,
    "th.device": _device,
}


def _sizes(what: str, value: Any) -> tuple[int, ...]:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    if not is_list or not all(_is_integer(size) and size >= 0 for size in value):
        raise ValueError(f"a {what} {show(value)}, expected a list of numbers from 0 up")
    return tuple(value)


def _dtype(value: Any) -> str:
    if not isinstance(value, Name) or value.path not in DTYPES:
        raise ValueError(f"a dtype {show(value)}, expected one of {', '.join(DTYPES)}")
    return value.path


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
