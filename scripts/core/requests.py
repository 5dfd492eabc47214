"""Requests: what a stage has to do, as a file of typed fields.

A stage declares its request as a frozen dataclass: the files that it reads, and the configuration. It writes files with fixed
names to the folder of its request, so a copy of the request in another folder is a repetition there. A dataclass among the fields of another adds its own fields: the JSON is flat. This module needs the standard library alone, as
the environments of stages have no other one for this.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any, TypeVar

from scripts.core import atomic, exits

FILE = "request.json"
"""The file of a request, in the folder of its stage."""

Request = TypeVar("Request")


@dataclass(frozen=True)
class StageRequest:
    """A request as its file has it.

    `module`: the entry point of the stage. `python`: the interpreter that runs it. `fields`: those of the dataclass that the
    stage declares. Paths are relative to the folder that has results/.
    """

    module: str
    python: str
    fields: Mapping[str, Any]

    def write(self, folder: Path) -> None:
        """Write it into a folder, which is made. Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        atomic.write_json(folder / FILE, dataclasses.asdict(self))

    def command(self, folder: Path) -> list[str]:
        """The command that does what is requested, once it is written into a folder."""
        return [self.python, "-m", self.module, "--request", str(folder / FILE)]

    def replaced(self, module: str | None = None, **fields: Any) -> StageRequest:
        """The request with other values of some fields, or to another stage."""
        return dataclasses.replace(
            self, module=module or self.module, fields={**self.fields, **plain(fields)}
        )

    def only(self, *names: str) -> dict[str, Any]:
        """Those of these fields that it has."""
        return {name: self.fields[name] for name in names if name in self.fields}

    def texts(self) -> Iterator[str]:
        """All texts among the values, of which some are paths."""
        return _texts(self.fields)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part)


def read(folder: Path) -> StageRequest:
    """Read the request in the folder of a stage. Raises OSError, or ValueError naming the file."""
    path = folder / FILE
    values = atomic.read_json(path)
    try:
        return StageRequest(**values)
    except TypeError as error:
        raise ValueError(f"{path}: not a request ({error})") from error


def plain(value: Any) -> Any:
    """A value as JSON has it: a path is text, a dataclass is an object."""
    if isinstance(value, Path):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def decode(kind: type[Request], fields: Mapping[str, Any]) -> Request:
    """Make a request of its fields. Raises ValueError for a field that is missing, unknown or of another type."""
    rest = dict(fields)
    request = _decoded(kind, rest)
    if rest:
        raise ValueError(f"{kind.__name__} has no field {', '.join(rest)}")
    return request


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decoded(kind: type[Request], rest: dict[str, Any]) -> Request:
    """Take the fields of `kind` from `rest`."""
    values: dict[str, Any] = {}
    hints = _hints(typing.cast(Any, kind))
    for field in dataclasses.fields(typing.cast(Any, kind)):
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint) and "type" not in field.metadata:
            values[field.name] = _decoded(typing.cast(type, hint), rest)
        elif field.name in rest:
            value = rest.pop(field.name)
            try:
                values[field.name] = _value(value, hint, field.metadata)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{kind.__name__}.{field.name}: {error}") from error
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{kind.__name__} needs the field {field.name}")
    return kind(**values)


def _value(value: Any, hint: Any, metadata: Mapping[str, Any]) -> Any:
    """A value of JSON as the type of its field has it. Raises ValueError."""
    if hint is Any:
        return value
    if dataclasses.is_dataclass(hint):
        return metadata["type"](value)
    if isinstance(hint, types.UnionType):
        if value is None:
            return None
        [hint] = [kind for kind in typing.get_args(hint) if kind is not types.NoneType]
    origin, parts = typing.get_origin(hint) or hint, typing.get_args(hint)
    expected: Any = _OF_JSON.get(origin, origin)
    if not isinstance(value, expected) or (isinstance(value, bool) and origin is not bool):
        raise ValueError(f"{value!r} is no {origin.__name__}")
    choices = metadata.get("choices")
    if choices is not None and value not in choices:
        raise ValueError(f"{value!r} is not one of {', '.join(map(str, choices))}")
    if expected is list:
        kinds = parts if origin is tuple and parts[-1] is not ... else parts[:1] * len(value)
        items = [_value(item, kind, {}) for item, kind in zip(value, kinds, strict=True)]
        return tuple(items) if origin is tuple else items
    return value if origin is Mapping else origin(value)


_OF_JSON: dict[Any, Any] = {
    Path: str,
    float: (int, float),
    Mapping: dict,
    **dict.fromkeys((list, tuple, Sequence), list),
}
"""The types that JSON has for those of fields that it does not have."""


@dataclass(frozen=True)
class Folders:
    """Where a stage writes. `results`: the folder of its results. `own`: that of its request, for what it leaves beside them;
    they differ under a supervisor, which moves complete results."""

    results: Path
    own: Path


def run(kind: type[Request], work: Callable[[Request, Folders], None]) -> None:
    """Be the entry point of a stage: read the request that the command line names, and do what it says. Exits with a message
    if it is no request of this kind."""
    module = sys.modules[work.__module__]
    parser = argparse.ArgumentParser(
        prog=f"python -m {module.__spec__.name if module.__spec__ else module.__name__}",
        description=module.__doc__,
    )
    parser.add_argument("--request", type=Path, required=True, help=f"{FILE} of a stage")
    parser.add_argument(
        "--out", type=Path, help="folder for the results (default: that of the request)"
    )
    args = parser.parse_args()
    try:
        request = decode(kind, StageRequest(**atomic.read_json(args.request)).fields)
    except (OSError, TypeError, ValueError) as error:
        exits.fail(f"{args.request}: not a request of this stage ({error})", reason="request")
    work(request, Folders(args.out or args.request.parent, args.request.parent))
