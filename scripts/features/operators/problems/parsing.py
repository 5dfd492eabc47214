"""Parse the arguments of an operator from a line of a trace, without evaluating it.

    arguments = "(" tuple "," dict ")"
    value     = None | True | False | number | string | list | tuple | dict | dtype
              | ["-"] (inf | nan) | torch.name | "T" call | "ST" call | ["torch."] "device" call
    call      = "(" [value or name "=" value {"," …}] ")"

Numbers, strings, lists, tuples and dicts are written as in Python.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from scripts.features.operators.problems import values
from scripts.features.operators.problems.values import (
    Arguments,
    Device,
    Dtype,
    Name,
    SparseTensor,
    Tensor,
)

_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
      (?P<number>(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<name>[A-Za-z_][A-Za-z_0-9]*(?:\.[A-Za-z_][A-Za-z_0-9]*)*)
    | (?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    | (?P<mark>[()\[\]{},:=-])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_CONSTANTS = {"None": None, "True": True, "False": False, "inf": math.inf, "nan": math.nan}
_DEEPEST = 50
"""Maximum depth of nested lists; arguments of operators have fewer levels."""


class ArgumentsError(ValueError):
    """The text is not in the format; `position` is the index of the wrong character."""

    def __init__(self, text: str, position: int, problem: str) -> None:
        before = text[max(0, position - 30) : position]
        near = f"{'…' if position > 30 else ''}{before}"
        super().__init__(f"column {position + 1}: {problem}, after {near!r}")
        self.position = position


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


def arguments(text: str) -> Arguments:
    """Return the positional and keyword arguments of `((…), {…})`. Raises ArgumentsError."""
    parser = _Parser(text)
    found = parser.whole()
    match found:
        case (tuple() as args, dict() as kwargs) if all(isinstance(key, str) for key in kwargs):
            return args, kwargs
    raise ArgumentsError(text, 0, "expected ((arguments), {'name': value})")


def value(text: str) -> Any:
    """Return one value. Raises ArgumentsError."""
    return _Parser(text).whole()


class _Parser:
    """Reads a text from left to right, one token ahead."""

    def __init__(self, text: str) -> None:
        self.text, self.position, self.depth = text, 0, 0
        self.token = self._next()

    def whole(self) -> Any:
        found = self.value()
        if self.token.kind != "end":
            self._expected("the end")
        return found

    def value(self) -> Any:
        token = self.token
        match token:
            case _Token("mark", "(" | "[" | "{"):
                return self._container(token)
            case _Token("mark", "-"):
                self._take()
                return -self._number()
            case _Token("number"):
                return self._number()
            case _Token("string"):
                self._take()
                return self._string(token)
            case _Token("name"):
                return self._name()
        self._expected("a value")

    def _container(self, opening: _Token) -> Any:
        self.depth += 1
        if self.depth > _DEEPEST:
            self._fail(opening.start, f"more than {_DEEPEST} levels")
        self._take()
        match opening.text:
            case "[":
                found: Any = self._items("]")[0]
            case "{":
                found = dict(self._items("}", self._pair)[0])
            case _:
                items, has_comma = self._items(")")
                found = items[0] if len(items) == 1 and not has_comma else tuple(items)
        self.depth -= 1
        return found

    def _items(self, closing: str, read: Callable[[], Any] | None = None) -> tuple[list, bool]:
        """Return the items before `closing`, and whether a comma follows the last one."""
        read = read or self.value
        items: list[Any] = []
        has_comma = False
        while not self._is(closing):
            if items and not has_comma:
                self._expected(f"',' or {closing!r}")
            items.append(read())
            has_comma = self._is(",")
            if has_comma:
                self._take()
        self._take()
        return items, has_comma

    def _pair(self) -> tuple[Any, Any]:
        start = self.token.start
        key = self.value()
        if not isinstance(key, str | int):
            self._fail(start, "expected a name as key")
        if not self._is(":"):
            self._expected("':'")
        self._take()
        return key, self.value()

    def _number(self) -> int | float:
        token = self._take()
        if token.kind == "name" and token.text in ("inf", "nan"):
            return math.inf if token.text == "inf" else math.nan
        if token.kind != "number":
            self._fail(token.start, f"expected a number, found {token.text or 'the end'!r}")
        try:
            return int(token.text) if token.text.isdigit() else float(token.text)
        except ValueError as error:  # more digits than Python converts
            raise ArgumentsError(self.text, token.start, str(error)) from error

    def _string(self, token: _Token) -> str:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                return ast.literal_eval(token.text)
        except (ValueError, SyntaxError, Warning) as error:
            raise ArgumentsError(self.text, token.start, f"no string: {error}") from error

    def _name(self) -> Any:
        token = self._take()
        if self._is("("):
            return self._call(token)
        if token.text in _CONSTANTS:
            return _CONSTANTS[token.text]
        if token.text in values.DTYPES:
            return Dtype(token.text)
        if token.text.startswith(("torch.", "th.")):
            return Name(f"torch.{token.text.partition('.')[2]}")
        self._fail(token.start, f"unknown name {token.text!r}")

    def _call(self, called: _Token) -> Any:
        make = _CALLS.get(called.text)
        if make is None:
            self._fail(
                called.start, f"unknown call {called.text!r}, expected T, ST or torch.device"
            )
        self._take()
        items, _ = self._items(")", self._argument)
        named = [name for name, _ in items if name]
        if any(name for name, _ in items[: len(items) - len(named)]) or len(set(named)) < len(
            named
        ):
            self._fail(
                called.start, "expected positional arguments before named ones, each name once"
            )
        args = [value for name, value in items if not name]
        try:
            return make(*args, **{name: value for name, value in items if name})
        except (TypeError, ValueError) as error:
            problem = str(error).removeprefix(f"{make.__name__}() ")
            raise ArgumentsError(self.text, called.start, f"{called.text}: {problem}") from error

    def _argument(self) -> tuple[str, Any]:
        """Return (name, value) of an argument of a call; the name is "" if it is positional."""
        token = self.token
        if token.kind == "name" and "." not in token.text:
            after = _TOKEN.match(self.text, self.position)
            if after and after["mark"] == "=":
                self._take()
                self._take()
                return token.text, self.value()
        return "", self.value()

    def _is(self, mark: str) -> bool:
        return self.token.kind == "mark" and self.token.text == mark

    def _take(self) -> _Token:
        token = self.token
        self.token = self._next()
        return token

    def _next(self) -> _Token:
        found = _TOKEN.match(self.text, self.position)
        if found is None or found.lastgroup is None:
            blank = len(self.text) - len(self.text[self.position :].lstrip(" \t\r\n"))
            self._fail(blank, f"unexpected {self.text[blank]!r}")
        self.position = found.end()
        return _Token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup))

    def _expected(self, what: str) -> NoReturn:
        found = repr(self.token.text) if self.token.text else "the end"
        self._fail(self.token.start, f"expected {what}, found {found}")

    def _fail(self, position: int, problem: str) -> NoReturn:
        raise ArgumentsError(self.text, position, problem)


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
    if nonzeros is not None and not values.is_integer(nonzeros):
        raise ValueError(f"found {values.show(nonzeros)}, expected a number of stored values")
    return SparseTensor(_sizes("shape", shape), _dtype(dtype), str(layout), is_coalesced, nonzeros)


def _device(type: Any, index: Any = None) -> Device:  # named as torch names them
    if not isinstance(type, str) or not (index is None or values.is_integer(index)):
        raise ValueError("expected a name, and an index or none")
    name, colon, number = type.partition(":")
    if colon and (index is not None or not number.isdigit()):
        raise ValueError(f"found {type!r}, expected a name such as 'cuda:0'")
    return Device(name, int(number) if colon else index)


def _sizes(what: str, value: Any) -> tuple[int, ...]:
    sizes = values.shape_of(value)
    if sizes is None:
        raise ValueError(f"a {what} {values.show(value)}, expected a list of numbers from 0 up")
    return sizes


def _dtype(value: Any) -> str:
    if not isinstance(value, Dtype):
        raise ValueError(
            f"a dtype {values.show(value)}, expected one of {', '.join(values.DTYPES)}"
        )
    return value.name


_CALLS: dict[str, Callable[..., Any]] = {
    "T": _tensor,
    "ST": _sparse,
    "device": _device,
    "torch.device": _device,
    "th.device": _device,
}
