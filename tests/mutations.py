"""Mutations of small valid files, as damage, a faulty tool or an attacker makes them.

All choices are those of a `random.Random`: hypothesis gives one that it can shrink, and benchmarks/mutated_files.py one of a seed.
Nothing here imports torch or hypothesis.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

NAMES = ("", "\0", "../../x", "/dev/zero", "x" * 300, "\ud800", "\x1b[2J", "nan", "-1", "9" * 5000)
"""Texts that no file, name or number should be."""
NUMBERS = (-1, 0, 1, 99, 2**31, 2**62, -(2**63))
VALUES = (None, True, *NUMBERS, 2**64, 10**400, 1e308, float("nan"), *NAMES, [], {}, [[]], [None], {"": {}})  # fmt: skip
CHUNKS = (
    b"\0",
    b"\0" * 64,
    b"\xff" * 10,  # a number of protobuf and of bytecode that has no end
    b"\x80" * 9 + b"\x7f",
    b"\xff\xfe",
    (2**63 - 1).to_bytes(8, "little"),
    b"9" * 5000,
    b"[" * 100_000,
    b'{"a":' * 20_000,
    b"(" * 3000,
    b"\n",
    b"*" * 50,
)


def refusal(read: Callable[[Path], Any], path: Path, *errors: type[Exception]) -> Exception | None:
    """The error of these that a reader raises for a file; None if it takes the file."""
    try:
        read(path)
    except errors as error:
        return error
    return None


def of_bytes(random: Random, data: bytes) -> bytes:
    """Some bytes with one to three changes: flipped, cut, left out, repeated, or something put between them."""
    for _ in range(random.randint(1, 3)):
        at, end = sorted((random.randint(0, len(data)), random.randint(0, len(data))))
        match random.randint(0, 5):
            case 0:
                data = data[:at] + bytes(b ^ 1 << random.randint(0, 7) for b in data[at : at + 1]) + data[at + 1 :]  # fmt: skip
            case 1:
                data = data[:at]
            case 2:
                data = data[:at] + data[end:]
            case 3:
                data = data[:end] + data[at:]
            case 4:
                data = data[:at] + random.choice(CHUNKS) + data[at:]
            case 5:
                chunk = random.choice(CHUNKS)
                data = data[:at] + chunk + data[at + len(chunk) :]
    return data


def of_json(random: Random, value: Any) -> Any:
    """A value of JSON with one to three changes inside: replaced, left out, renamed, repeated, nested, or moved."""
    root = [copy.deepcopy(value)]
    for _ in range(random.randint(1, 3)):
        places = [*_places(root)]
        inside, key = random.choice(places)
        match random.randint(0, 5):
            case 0 | 1:
                inside[key] = copy.deepcopy(random.choice(VALUES))
            case 2 if inside is not root:
                del inside[key]
            case 3 if isinstance(inside, dict):
                inside[random.choice(NAMES)] = inside.pop(key)
            case 4:
                for _ in range(random.choice((1, 2, 300))):
                    inside[key] = [inside[key]]
            case _:
                other, name = random.choice(places)
                inside[key] = copy.deepcopy(other[name])
    return root[0]


def json_bytes(random: Random, value: Any) -> bytes:
    """The JSON of a value that is changed, or changed bytes of its JSON."""
    if random.randint(0, 1):
        return json.dumps(of_json(random, value)).encode()
    return of_bytes(random, json.dumps(value).encode())


def _places(inside: Any) -> Iterator[tuple[Any, Any]]:
    """Each (list or dict, its index or key) inside a value."""
    todo = [inside]
    while todo:
        inner = todo.pop()
        for key in [*inner] if isinstance(inner, dict) else range(len(inner)):
            yield inner, key
            if isinstance(inner[key], dict | list):
                todo.append(inner[key])


def of_message(random: Random, message: Any) -> None:
    """Change one to three fields of a message of protobuf and of the messages inside it, in place."""
    for _ in range(random.randint(1, 3)):
        inner = random.choice([*_messages(message)])
        field = random.choice(inner.DESCRIPTOR.fields)
        is_message = field.message_type is not None
        value = getattr(inner, field.name)
        if random.randint(0, 4) == 0:
            inner.ClearField(field.name)
        elif field.is_repeated:
            if is_message and value:
                value.add().CopyFrom(random.choice([*value]))
            elif is_message:
                value.add()
            else:
                value.append(_scalar(random, field))
        elif is_message:
            value.SetInParent()
        else:
            setattr(inner, field.name, _scalar(random, field))


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else (value,):
                yield from _messages(inner)


def _scalar(random: Random, field: Any) -> Any:
    """A value that the type of a field can hold."""
    match field.cpp_type:
        case field.CPPTYPE_STRING if field.type == field.TYPE_BYTES:
            return random.choice(CHUNKS)[:64]
        case field.CPPTYPE_STRING:
            return random.choice([name for name in NAMES if name.isprintable() or name == "\0"])
        case field.CPPTYPE_ENUM:
            return random.choice([known.number for known in field.enum_type.values])
        case field.CPPTYPE_INT32:
            return random.choice([number for number in NUMBERS if -(2**31) <= number < 2**31])
        case field.CPPTYPE_INT64:
            return random.choice(NUMBERS)
        case field.CPPTYPE_UINT64 | field.CPPTYPE_UINT32:
            return random.choice([number for number in NUMBERS if 0 <= number < 2**32])
        case field.CPPTYPE_BOOL:
            return bool(random.randint(0, 1))
    return random.choice((float("nan"), -1.0, 1e30))
