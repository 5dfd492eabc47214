"""Resolves requirements to a lock, with uv. Needs a package index."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from scripts.run import installing, locks


def resolve(
    requirements: Iterable[str],
    python: str,
    before: str = "",
    options: Sequence[str] = (),
    header: str = locks.REFRESH,
) -> str:
    """Return the text of a lock of the requirements, for a version of Python.

    Versions of the lock `before` are kept if they still fit. uv uses the indexes that it is configured
    for; the lock does not name them. `options`: further ones of `uv pip compile`. `header`: what the
    comment at the beginning gives as its command. Raises LockError with uv's message.
    """
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "requirements.in"
        wanted.write_text("".join(f"{one}\n" for one in requirements), encoding="utf-8")
        made = Path(folder) / "lock"
        if before:
            made.write_text(before, encoding="utf-8")
        done = subprocess.run(
            [
                *(installing.uv(), "pip", "compile", wanted.name, "--output-file", made.name),
                *("--python-version", python, "--generate-hashes", "--quiet", "--no-annotate"),
                *("--custom-compile-command", header, *options),
            ],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise locks.LockError(f"uv finds no versions that fit:\n{done.stderr}")
        return made.read_text(encoding="utf-8")
