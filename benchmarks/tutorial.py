"""Run the commands of README.md and docs/tutorial.md again, and write what they print into the pages.

python -m benchmarks.tutorial

They run in a copy of this checkout, with its environments. Run it while nothing else runs.

A step is an `sh` block that a `text` block with its output follows. A `python` or `yaml` block whose first line is `# <name>` is
the file of this name. In the output, a line `…` represents lines that are left out. What follows it begins at the line of the
output that is like the first line shown and ends with the one that is like the last line shown: their first three words are the
same, without numbers. A part that a line `…` does not end goes to the end of the output.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.core import atomic, checkout

PAGES = ("README.md", "docs/tutorial.md")
LEFT_OUT = "…"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language and text, and where the text begins and ends in the page."""

    language: str
    text: str
    begin: int
    end: int


class StepError(Exception):
    """A command failed, or printed no line like one that the page shows."""


def main() -> None:
    argparse.ArgumentParser(prog="python -m benchmarks.tutorial", description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy_checkout(Path(folder))
        for name in PAGES:
            page = checkout.ROOT / name
            try:
                atomic.write_text(page, rerun(page.read_text(encoding="utf-8"), Path(folder)))
            except StepError as problem:
                sys.exit(f"error: {name}: {problem}")


def copy_checkout(folder: Path) -> None:
    """Copy the files of this checkout, without results, and link to the environments that it has made."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=checkout.ROOT,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    environments = checkout.ROOT / ".venvs"
    made = [
        path.parent
        for path in checkout.ROOT.glob("results/env/*/status.json")
        if (environments / path.parent.name / "versions.json").exists()
    ]
    files = [checkout.ROOT / name for name in listed.stdout.split("\0") if name]
    files += [path for env in made for path in env.rglob("*")]
    for file in (path for path in files if path.is_file() or path.is_symlink()):
        copied = folder / file.relative_to(checkout.ROOT)
        copied.parent.mkdir(parents=True, exist_ok=True)
        # Times come along: an environment that is older than its file would be made again.
        shutil.copy2(file, copied, follow_symlinks=False)
    (folder / ".venvs").mkdir()
    for env in made:
        (folder / ".venvs" / env.name).symlink_to((environments / env.name).resolve())


def rerun(page: str, folder: Path, environment: dict[str, str] | None = None) -> str:
    """Return a page with what its steps print in a checkout. `environment`: of the commands, in place of this process's.

    Raises StepError if a command fails, or prints nothing like what the page shows.
    """
    shown = [*blocks(page)]
    parts, done = [], 0
    for block, following in zip(shown, [*shown[1:], None], strict=True):
        heading = re.match(r"# (\S+)\n", block.text)
        if block.language in ("python", "yaml") and heading:
            (folder / heading[1]).write_text(block.text, encoding="utf-8")
        elif block.language == "sh" and following and following.language == "text":
            printed = run(block.text, folder, environment)
            parts += [page[done : following.begin], excerpt(printed, following.text)]
            done = following.end
    return "".join([*parts, page[done:]])


def blocks(page: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    for fence in FENCE.finditer(page):
        yield Block(fence[1], fence[2], fence.start(2), fence.end(2))


def run(commands: str, folder: Path, environment: dict[str, str] | None = None) -> str:
    """Return what commands print in a checkout. `vmfbench` is that of the checkout. Raises StepError if one fails."""
    variables = dict(os.environ if environment is None else environment)
    variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), variables["PATH"]])
    variables["PYTHONPATH"] = str(folder / ".launcher")
    print(commands, end="", flush=True)
    ended = subprocess.run(
        ["bash", "-ec", commands],
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise StepError(f"exit code {ended.returncode} of\n{commands}\n{ended.stdout[-3000:]}")
    return ended.stdout


def excerpt(printed: str, shown: str) -> str:
    """Return the lines of an output that take the place of those `shown` (see above)."""
    lines = [line.rstrip() for line in printed.splitlines()]
    parts: list[list[str]] = [[]]
    for line in shown.splitlines():
        if line == LEFT_OUT:
            parts.append([])
        else:
            parts[-1].append(line)
    taken: list[str] = []
    at = 0
    for number, part in enumerate(parts):
        if number:
            taken.append(LEFT_OUT)
        if part:
            begin = _like(part[0], lines, at)
            at = len(lines) if number == len(parts) - 1 else _like(part[-1], lines, begin) + 1
            taken += lines[begin:at]
    return "".join(f"{line}\n" for line in taken)


def _like(shown: str, lines: list[str], start: int) -> int:
    """The number of the first line, from `start` on, that is like one that is shown."""
    for number in range(start, len(lines)):
        if shape(lines[number]) == shape(shown):
            return number
    raise StepError(
        f"the output has no line that begins like {shown!r}. Show another line there. The output:\n"
        + "\n".join(lines)
    )


def shape(line: str) -> list[str]:
    """Return what stays of a line from run to run: its first three words, without numbers and marks."""
    return re.sub(r"[\d.,]+|[†*?±%─]|\bunknown\b", " ", line).split()[:3]


if __name__ == "__main__":
    main()
