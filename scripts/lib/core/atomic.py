"""Write whole files or none: beside the target first, then one rename."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def write_text(path: str | Path, text: str) -> None:
    """Replace `path` with `text` so that no reader ever sees half of it."""
    with _beside(Path(path)) as aside, aside.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())


def write_json(path: str | Path, value: Any) -> None:
    """Replace `path` with `value` as indented JSON, keys in the order given.

    NaN and infinities are refused: they are not JSON, and a reader would fail far from here.
    """
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: str | Path) -> Any:
    """Read a JSON file; a broken one raises ValueError that names the file."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # JSONDecodeError, UnicodeDecodeError; nesting
        raise ValueError(
            f"{path}: not valid JSON ({error}); the next run makes it again"
        ) from error


def move(source: Path, target: Path) -> None:
    """Put a file in the place of `target`, which may be on another file system."""
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
    """A path beside `target`, on its file system; what is written there takes its place at the end,
    or is gone where that raises."""
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        yield aside
        os.replace(aside, target)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
