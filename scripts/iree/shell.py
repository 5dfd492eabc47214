"""Shell scripts of IREE's tools, which need nothing but IREE's wheels or a folder of tools."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

Command = Sequence[str]


def write(path: Path, about: str, version: str, commands: Sequence[Command]) -> None:
    """Write an executable script that ends with the code of the last command, or of the first that fails.

    `about`: what it shows, as the line of a comment. `version`: of IREE, for the environment that it makes.
    """
    write_text(path, about, version, "\n".join(["set -x", *map(shown, commands)]) + "\n")


def write_text(path: Path, about: str, version: str, text: str) -> None:
    """Write such a script whose commands are any text for sh."""
    begin = _SCRIPT.format(about=about, name=path.name, version=version)
    path.write_text(begin + text, encoding="utf-8")
    path.chmod(0o755)


def steps(path: Path) -> str:
    """Return the commands of a script that `write` has written."""
    return path.read_text(encoding="utf-8").partition("set -x\n")[2].strip()


def shown(command: Command) -> str:
    """A command on several lines; a value stays in the line of its option."""
    lines: list[str] = []
    for word in command:
        if lines and lines[-1] == "-o":
            lines[-1] += f" {shlex.quote(word)}"
        else:
            lines.append(shlex.quote(word))
    return " \\\n    ".join(lines)


_SCRIPT = """\
#!/bin/sh
# {about}
#
#   ./{name}            makes an environment in ./venv with IREE {version} (needs Python 3.11 or later, and PyPI)
#   ./{name} <folder>   uses the tools in this folder, for example of a build of IREE
set -eu
if [ $# -gt 0 ]; then
    tools=$(CDPATH='' cd -- "$1" && pwd)
    [ -x "$tools/iree-compile" ] || {{ echo "$0: no iree-compile in $tools" >&2; exit 2; }}
fi
cd "$(dirname "$0")"
if [ $# -eq 0 ]; then
    [ -x venv/bin/iree-compile ] || {{
        python3 -m venv venv
        venv/bin/python -m pip install -q iree-base-compiler=={version} iree-base-runtime=={version}
    }}
    tools=$PWD/venv/bin
fi
PATH=$tools:$PATH
"""
