"""Digests of files: size and checksum at the time when a stage wrote them, to detect damage later.

The checksum detects damage and not manipulation, and is computed over gigabytes for every stage that
reads them. zlib's CRC-32 takes a third of the time of BLAKE2b (docs/architecture.md), and misses one
damaged file in four thousand million.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

CHUNK_BYTES = 1 << 20
_SEAL = "crc32"


@dataclass(frozen=True)
class Digest:
    """Size in bytes, and CRC-32 (as of zlib) in hexadecimal."""

    bytes: int
    crc32: str


def of(path: Path) -> Digest:
    """The digest of a file. Raises OSError."""
    with FileIO(path) as file:
        return _of(file)


def difference(path: Path, recorded: Digest) -> str:
    """How a file differs from its digest; "" if it does not."""
    try:
        with FileIO(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size != recorded.bytes:
                return f"it has {size} bytes and was made with {recorded.bytes}"
            if _of(file) != recorded:
                return f"its {size} bytes are not the ones that were made (CRC-32)"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return ""


def has_size(path: str, recorded: Digest) -> bool:
    """Whether a file has the size of its digest. Raises OSError.

    If the size seems to differ, the file is opened and checked again: NFS may report an old size until
    then (nfs(5), close-to-open cache consistency).
    """
    if os.stat(path).st_size == recorded.bytes:
        return True
    with FileIO(path) as file:
        return os.fstat(file.fileno()).st_size == recorded.bytes


def sealed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a JSON file that has its digest in no other file, with a checksum of them."""
    return {**values, _SEAL: _checksum(values)}


def unsealed(values: Any) -> Any:
    """What a JSON file contains, without its checksum. A file of an older version has none.

    Raises ValueError if the checksum is that of other values.
    """
    if not isinstance(values, dict) or _SEAL not in values:
        return values
    own = {key: value for key, value in values.items() if key != _SEAL}
    if values[_SEAL] != _checksum(own):
        raise ValueError("its values are not the ones that were written (CRC-32)")
    return own


def _checksum(values: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(values, sort_keys=True).encode()):08x}"


def _of(file: FileIO) -> Digest:
    size, crc, chunk = 0, 0, memoryview(bytearray(CHUNK_BYTES))
    while read := file.readinto(chunk):
        size += read
        crc = zlib.crc32(chunk[:read], crc)
    return Digest(size, f"{crc:08x}")
