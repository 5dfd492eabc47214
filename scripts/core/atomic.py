"""Writes files completely or not at all: to a temporary file next to the target, then renamed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


def write_text(path: str | Path, text: str) -> None:
    """Replace `path` with `text` in one step: no reader sees an incomplete file."""
    write_parts(path, (text,))


def write_parts(path: str | Path, parts: Iterable[str]) -> None:
    """Replace `path` with a text in one step. Its parts are written as they come."""
    _write(path, (part.encode() for part in parts))


def write_bytes(path: str | Path, data: bytes) -> None:
    """Replace `path` with `data` in one step."""
    _write(path, (data,))


def _write(path: str | Path, parts: Iterable[bytes]) -> None:
    with _beside(Path(path)) as aside, aside.open("wb") as out:
        out.writelines(parts)
        out.flush()
        os.fsync(out.fileno())


def write_json(path: str | Path, value: Any) -> None:
    """Replace `path` with `value` as indented JSON, keys in the order given.

    NaN and infinities raise an error: they are not JSON, and would fail later in a reader.
    """
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: str | Path) -> Any:
    """Read a JSON file. Raises ValueError naming the file if it is not valid."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # JSONDecodeError, UnicodeDecodeError; nesting
        raise ValueError(
            f"{path}: not valid JSON ({error}); the next run makes it again"
        ) from error


def move(source: Path, target: Path) -> None:
    """Move a file to `target`, which may be on another file system."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with _beside(target) as aside:
            shutil.copyfile(source, aside)
        source.unlink()


@contextlib.contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """A temporary path in the folder of `target`, so on its file system. The file written there replaces
    `target` at the end, or is deleted if the block raises."""
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        yield aside
        os.replace(aside, target)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
