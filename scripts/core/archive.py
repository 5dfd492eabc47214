"""Parameter archives (`.irpa`): written once by the reference stage, read by every runtime."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable
from pathlib import Path

import numpy as np

SCOPE = "model"
"""The scope of every parameter: programs refer to `#flow.parameter.named<"model"::"<key>">`."""

_UNPRINTED = re.compile(r'["\\%\x00-\x1f\x7f]')


def key(name: str) -> str:
    """The key of a weight in archives and programs: its name, in which characters that IREE does not
    escape in a program's text (IREE 3.13) are percent-encoded."""
    return _UNPRINTED.sub(lambda match: f"%{ord(match[0]):02X}", name)


def name(key: str) -> str:
    """The name of the weight with this key."""
    return urllib.parse.unquote(key)


def write(path: str | Path, weights: Iterable[tuple[str, np.ndarray]]) -> None:
    """Write (name, uint8 bytes) pairs as an IREE parameter archive.

    The bytes are referenced, not copied, until the file is written.
    """
    import iree.runtime as rt

    index = rt.ParameterIndex()
    for weight, data in weights:
        index.add_buffer(key(weight), data)
    index.create_archive_file(str(path))


def read(path: str | Path) -> dict[str, np.ndarray]:
    """Map an archive: a weight's name to its bytes (uint8, read-only, backed by the file)."""
    import iree.runtime as rt

    index = rt.ParameterIndex()
    index.load(str(path))
    return {name(k): np.frombuffer(entry.file_view, dtype=np.uint8) for k, entry in index.items()}
