"""Parameter archives (`.irpa`): written once by the reference stage, read by every runtime."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

SCOPE = "model"
"""Scope of every parameter: programs name `#flow.parameter.named<"model"::"<key>">`."""


def write(path: str | Path, weights: Iterable[tuple[str, np.ndarray]]) -> None:
    """Write (key, uint8 bytes) pairs as an IREE parameter archive.

    The bytes are referenced, not copied, until the file is written.
    """
    import iree.runtime as rt

    index = rt.ParameterIndex()
    for key, data in weights:
        index.add_buffer(key, data)
    index.create_archive_file(str(path))


def read(path: str | Path) -> dict[str, np.ndarray]:
    """Map an archive: key to its bytes (uint8, read-only, backed by the file)."""
    import iree.runtime as rt

    index = rt.ParameterIndex()
    index.load(str(path))
    return {key: np.frombuffer(entry.file_view, dtype=np.uint8) for key, entry in index.items()}
