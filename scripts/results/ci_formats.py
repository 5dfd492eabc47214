"""What a check or a comparison says in the forms that CI systems read: JUnit XML, annotations, Markdown of a limited size."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from scripts.core import atomic, commands, exits

BAD_INPUT = 2
"""The exit code for input that cannot be used: 1 means that an expectation is not met, or that something is worse."""
SUMMARY_BYTES = 1_000_000
"""GitHub refuses a job summary of more than 1 MiB."""
COMMENT_BYTES = 30_000
"""GitHub refuses a comment of more than 65,536 characters, and one has what two commands say."""


@dataclass(frozen=True)
class Case:
    """A cell as a test. `failure`: why it failed, "" if it did not. `skipped`: why nothing is said about it. `output`: what else
    there is to say."""

    name: str
    failure: str = ""
    skipped: str = ""
    output: str = ""


def junit(suite: str, title: str, cases: Sequence[Case]) -> str:
    """JUnit XML, as Jenkins, GitLab and others read it: a suite with a test per cell. `suite`: what its tests are known by from run to run.
    `title`: what this run is about."""
    counts = {
        "tests": len(cases),
        "failures": sum(bool(case.failure) for case in cases),
        "errors": 0,
        "skipped": sum(bool(case.skipped) for case in cases),
    }
    numbers = {name: str(count) for name, count in counts.items()}
    root = ElementTree.Element("testsuites", {"name": title})
    element = ElementTree.SubElement(root, "testsuite", {"name": suite} | numbers)
    for case in cases:
        words = {"classname": f"{suite}.{case.name.partition('/')[0]}", "name": case.name}
        test = ElementTree.SubElement(element, "testcase", words)
        for tag in ("failure", "skipped"):
            if said := _xml_text(getattr(case, tag)):
                first = {"message": said.partition("\n")[0]}
                ElementTree.SubElement(test, tag, first).text = said
        if case.output:
            ElementTree.SubElement(test, "system-out").text = _xml_text(case.output)
    ElementTree.indent(root)
    return ElementTree.tostring(root, "unicode", xml_declaration=True) + "\n"


def _xml_text(text: str) -> str:
    """Text without the characters that XML cannot have, such as the colours of a compiler's message."""
    return re.sub(
        r"\x1b\[[0-9;]*m|[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", text
    )


def annotation(kind: str, message: str, title: str) -> str:
    """A workflow command of GitHub Actions, such as `::error title=…::…` (docs.github.com, "Workflow commands for GitHub Actions"). Its parts
    are escaped as @actions/core does it."""
    body, head = (
        text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
        for text in (message, title)
    )
    return f"::{kind} title={head.replace(':', '%3A').replace(',', '%2C')}::{body}"


def cut(text: str, limit: int) -> str:
    """Return Markdown of at most `limit` bytes: the lines that fit, and a note if some do not."""
    if len(text.encode()) <= limit:
        return text
    lines = text.splitlines(keepends=True)
    note = "\n*The rest of {} lines is left out here. The files of the run have all.*\n"
    room, shown = limit - len(note.encode()) - 12, 0
    for line in lines:
        room -= len(line.encode())
        if room < 0:
            break
        shown += 1
    return "".join(lines[:shown]) + note.format(f"{len(lines) - shown:,}")


def add_option(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """Add the option `--format` to a verb's parser; `write` takes its value."""
    known = tuple(names)

    def wanted(text: str) -> tuple[str, Path | None]:
        name, equals, file = text.partition("=")
        if name not in known or bool(equals) != bool(file):
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a format or FORMAT=FILE; formats: {', '.join(known)}"
            )
        return name, Path(file) if file else None

    parser.add_argument(
        "--format",
        action="append",
        type=wanted,
        metavar="FORMAT[=FILE]",
        help=f"{', '.join(known)} (default: text); with a file, it is written there; may be repeated",
    )


def write(
    wanted: Sequence[tuple[str, Path | None]] | None, formats: Mapping[str, Callable[[], str]]
) -> None:
    """Print, or write to its file, each requested format. Exits if a file cannot be written."""
    for name, path in wanted or [("text", None)]:
        text = commands.shown(formats[name]())
        if path is None:
            print(text, end="")
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic.write_text(path, text)
        except OSError as error:
            exits.fail(f"{path}: {error}", BAD_INPUT)
