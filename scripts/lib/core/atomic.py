"""Write whole files or none: beside the target first, then one rename."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_text(path: str | Path, text: str) -> None:
    """Replace `path` with `text` so that no reader ever sees half of it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with aside.open("w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


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
        raise ValueError(f"{path}: not valid JSON ({error}); delete it and run again") from error
