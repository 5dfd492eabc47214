"""The options of a command, each declared once: as a field of a frozen dataclass.

    @dataclass(frozen=True, kw_only=True)
    class Options:
        model: ModelChoice
        ir_format: str = option("text", choices=FORMATS)
        out_program: Path

The option of `out_program` is `--out-program`; it is required, because the field has no default. Its value has the type of the
field: a number, a path or text. It is JSON for a collection, and a switch for a bool. A dataclass among the
fields adds its own options.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from typing import Any, TypeVar

Options = TypeVar("Options")


def option(default: Any = MISSING, *, factory: Any = MISSING, **argument: Any) -> Any:
    """A field with its default, or what makes it, and what else argparse's add_argument is to be given: help, choices, type."""
    return dataclasses.field(default=default, default_factory=factory, metadata=argument)


def parse(kind: type[Options], words: Sequence[str] | None = None) -> Options:
    """The options of a command of the module that declares `kind`. Exits with a message if the words are wrong."""
    module = sys.modules[kind.__module__]
    name = module.__spec__.name if module.__spec__ else module.__name__
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=module.__doc__)
    add(parser, kind)
    return of(kind, parser.parse_args(words))


def add(parser: argparse.ArgumentParser, kind: type) -> None:
    """Add the options of `kind` to a parser."""
    for field, hint in _fields(kind):
        if _has_options(field, hint):
            add(parser, hint)
            continue
        argument: dict[str, Any] = {"type": _converter(hint)} if hint is not bool else {"action": "store_true"}  # fmt: skip
        if field.default is MISSING and field.default_factory is MISSING:
            argument["required"] = True
        else:
            argument["default"] = argparse.SUPPRESS
        parser.add_argument(f"--{field.name.replace('_', '-')}", **argument | field.metadata)


def of(kind: type[Options], args: argparse.Namespace) -> Options:
    """The values of the options that `add` has added."""
    given = vars(args)
    values = {
        field.name: of(hint, args) if _has_options(field, hint) else given[field.name]
        for field, hint in _fields(kind)
        if field.name in given or _has_options(field, hint)
    }
    return kind(**values)


def _fields(kind: type) -> list[tuple[dataclasses.Field, Any]]:
    """The fields of a dataclass, with their types."""
    hints = typing.get_type_hints(kind)
    return [(field, hints[field.name]) for field in dataclasses.fields(kind)]


def _has_options(field: dataclasses.Field, hint: Any) -> bool:
    """Whether a field stands for options of its own."""
    return dataclasses.is_dataclass(hint) and "type" not in field.metadata


def _converter(hint: Any) -> Callable[[str], Any]:
    """What makes a value of this type of a word; None may stand for the default."""
    if typing.get_origin(hint) is types.UnionType:
        [hint] = [kind for kind in typing.get_args(hint) if kind is not types.NoneType]
    return json.loads if typing.get_origin(hint) else hint
