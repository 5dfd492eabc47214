"""Writes files completely or not at all, and compares them with the digests of what was written.

A file is written to a temporary one next to its place, then renamed. A digest has its size and checksum at the time when
a stage wrote it. Runs compare sizes. The checksum (zlib's CRC-32, which detects damage and not manipulation) is compared
where a file has come from another machine or a shared folder, and by `vmfbench check --files`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import FileIO
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


def read_artifact(path: Path) -> dict[str, Any]:
    """Read a JSON file; {} if it does not exist or is the empty one of a failed stage. Raises ValueError naming the file if it is damaged."""
    return read_json(path) if path.is_file() and path.stat().st_size else {}


def move(source: Path, target: Path) -> None:
    """Move a file to `target`, which may be on another file system."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        copy(source, target)
        source.unlink()


def copy(source: Path, target: Path) -> None:
    """Copy a file to `target` in one step. Raises OSError."""
    with _beside(target) as aside:
        shutil.copyfile(source, aside)


def clear(folder: Path) -> None:
    """Delete what killed processes have left half-written in a folder, to which no other process may be writing."""
    for path in folder.glob(".*.partial"):
        path.unlink(missing_ok=True)


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


DIGEST_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Digest:
    """Size in bytes, and CRC-32 (as of zlib) in hexadecimal."""

    bytes: int
    crc32: str


def digest_of(path: Path) -> Digest:
    """The digest of a file. Raises OSError."""
    size, crc, chunk = 0, 0, memoryview(bytearray(DIGEST_CHUNK_BYTES))
    with FileIO(path) as file:
        while read := file.readinto(chunk):
            size += read
            crc = zlib.crc32(chunk[:read], crc)
    return Digest(size, f"{crc:08x}")


def difference_from(path: Path, recorded: Digest) -> str:
    """How a file differs from its digest; "" if it does not."""
    if what := size_difference(path, recorded):
        return what
    try:
        if digest_of(path) != recorded:
            return f"its {recorded.bytes} bytes are not the ones that were made (CRC-32)"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return ""


def size_difference(path: str | Path, recorded: Digest) -> str:
    """How the size of a file differs from that of its digest; "" if it does not.

    If the size seems to differ, the file is opened and checked again: NFS may report an old size until
    then (nfs(5), close-to-open cache consistency).
    """
    try:
        if (size := os.stat(path).st_size) != recorded.bytes:
            with FileIO(path) as file:
                size = os.fstat(file.fileno()).st_size
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return (
        "" if size == recorded.bytes else f"it has {size} bytes and was made with {recorded.bytes}"
    )
