"""Commands: their options, what they report while they run, and how they print and end.

The options of a command are the fields of a frozen dataclass: that of `out_page: Path` is `--out-page`, and it is required, because
the field has no default. A value has the type of its field; it is JSON for a collection, and a switch for a bool. A stage has no
options, but a request (scripts/core/requests.py). It reports to its supervisor, if there is one.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import select
import signal
import sys
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING
from typing import Any, NoReturn, TextIO, TypeVar

Options = TypeVar("Options")


def option(default: Any = MISSING, *, factory: Any = MISSING, **argument: Any) -> Any:
    """A field with its default, or what makes it, and what else argparse's add_argument is to be given: help, choices, type."""
    return dataclasses.field(default=default, default_factory=factory, metadata=argument)


def parse_options(kind: type[Options], words: Sequence[str] | None = None) -> Options:
    """The options of a command of the module that declares `kind`. Exits with a message if the words are wrong."""
    module = sys.modules[kind.__module__]
    name = module.__spec__.name if module.__spec__ else module.__name__
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=module.__doc__)
    add_options(parser, kind)
    return options_of(kind, parser.parse_args(words))


def add_options(parser: argparse.ArgumentParser, kind: type) -> None:
    """Add the options of `kind` to a parser."""
    for field, hint in _option_fields(kind):
        argument: dict[str, Any] = {"type": _converter(hint)} if hint is not bool else {"action": "store_true"}  # fmt: skip
        if field.default is MISSING and field.default_factory is MISSING:
            argument["required"] = True
        else:
            argument["default"] = argparse.SUPPRESS
        parser.add_argument(f"--{field.name.replace('_', '-')}", **argument | field.metadata)


def options_of(kind: type[Options], args: argparse.Namespace) -> Options:
    """The values of the options that `add_options` has added."""
    given = vars(args)
    values = {
        field.name: given[field.name]
        for field in dataclasses.fields(typing.cast(Any, kind))
        if field.name in given
    }
    return kind(**values)


def _option_fields(kind: type) -> list[tuple[dataclasses.Field, Any]]:
    hints = typing.get_type_hints(kind)
    return [(field, hints[field.name]) for field in dataclasses.fields(kind)]


def _converter(hint: Any) -> Callable[[str], Any]:
    """What makes a value of this type of a word; None may represent the default."""
    if typing.get_origin(hint) is types.UnionType:
        [hint] = [kind for kind in typing.get_args(hint) if kind is not types.NoneType]
    return json.loads if typing.get_origin(hint) else hint


CHANNEL_VARIABLE = "VMFBENCH_CHANNEL"
"""Environment variable of a stage: the file descriptor of its connection to the supervisor."""

WORKING = b"working\n"
NEXT = b"next\n"
MARK = b"mark "


def report_working() -> None:
    """Report that start-up is over: the packages are imported and the work begins."""
    _send(WORKING)


def report_next() -> None:
    """Report that the next of several programs begins, and restart the time limit for it."""
    _send(NEXT)


def report_part(name: str) -> None:
    """Report that a part of the work begins, for the memory over time (outcome.MemorySeries)."""
    _send(MARK + name.encode() + b"\n")


def coordinator_requests() -> Iterator[dict[str, Any]]:
    """The requests of a coordinator, one JSON object per line, until it closes the channel."""
    with os.fdopen(os.dup(int(os.environ[CHANNEL_VARIABLE])), encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def answer_coordinator(message: dict[str, Any]) -> None:
    """Send a JSON object to the coordinator."""
    data = json.dumps(message).encode() + b"\n"
    fd = int(os.environ[CHANNEL_VARIABLE])
    while data:
        data = data[os.write(fd, data) :]


def _send(message: bytes) -> None:
    if CHANNEL_VARIABLE in os.environ:
        os.write(int(os.environ[CHANNEL_VARIABLE]), message)


_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters but for tab and newline, and those that change the direction of text."""


def shown(value: str) -> str:
    """Return text in which each control character is written as in Python: `\\x1b`."""
    return _OBEYED.sub(lambda at: ascii(at[0])[1:-1], value)


_FORMULA = re.compile(r"'*[=+\-@\t\n]")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)


def csv_cell(value: Any) -> Any:
    """Return a value as a cell of a CSV: text with control characters as `shown` writes them, and with an apostrophe before what a
    spreadsheet would take for a formula, as OWASP advises ("CSV Injection"). `csv_text` takes the apostrophe away."""
    if not isinstance(value, str):
        return value
    value = shown(value)
    is_formula = _FORMULA.match(value) and not _NUMBER.fullmatch(value)
    return f"'{value}" if is_formula else value


def csv_text(cell: str) -> str:
    """Return the text of a cell that `csv_cell` has made, with control characters as they are shown."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


class Stream:
    """A stream of text that writes control characters as `shown` does. `raw`: the one that obeys them."""

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, value: str) -> int:
        """Write text. Returns the number of characters of `value`."""
        self.raw.write(shown(value))
        return len(value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def protect() -> None:
    """Make standard output and standard error of this process streams of this kind."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, Stream):
            setattr(sys, name, Stream(stream))


UNREAD = 128 + signal.SIGPIPE
"""The exit code of a command whose output is no longer read: that of a tool which SIGPIPE ends, in a shell."""


def run(main: Callable[[], int | None]) -> NoReturn:
    """Call `main` and exit with the code that it returns or exits with. For commands that print for people: control characters in
    names, logs and errors of others are shown and not obeyed.

    If nobody reads its output any more (`| head`), the process ends with UNREAD and without a traceback. SIGPIPE keeps Python's
    handling, because it would also end a process that writes to a closed connection.
    """
    protect()
    try:
        try:
            code = main()
        finally:
            print(end="", flush=True)  # what is left is not first written when Python ends
    except BrokenPipeError:
        if not (unread := [fd for fd in (1, 2) if _is_unread(fd)]):
            raise
        # Python writes what is left once more when it ends.
        for fd in unread:
            os.dup2(os.open(os.devnull, os.O_WRONLY), fd)
        raise SystemExit(UNREAD) from None
    raise SystemExit(code)


def _is_unread(fd: int) -> bool:
    """Whether a file descriptor is a pipe, or a connection, whose other end is closed (poll(2))."""
    poll = select.poll()
    poll.register(fd, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


CELL: dict[str, Any] = {
    "action": "append",
    "type": str,
    "metavar": "GLOB",
    "help": "only cells whose name matches, such as 'resnet/*/vulkan'; may be repeated; '!GLOB' leaves cells out",
}
"""The option `--cell` of commands that select cells, as argparse declares it. Its value is an argument of matrix.cell.selects."""


def add_cell_option(parser: argparse.ArgumentParser) -> None:
    """Add the option `--cell` to a verb's parser."""
    parser.add_argument("--cell", default=[], **CELL)
