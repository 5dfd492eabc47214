"""Writes files completely or not at all, and detects damage to them later.

A file is written to a temporary one next to its place, then renamed. A digest has its size and checksum at the time when
a stage wrote it. The checksum detects damage and not manipulation, and is computed over gigabytes for every stage that
reads them. zlib's CRC-32 takes a third of the time of BLAKE2b, and misses one
damaged file in four thousand million.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
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
    """Delete what processes of this machine that were killed have left half-written in a folder."""
    for path in folder.glob(".*.partial"):
        with contextlib.suppress(FileNotFoundError):  # it has just been finished
            if not _is_being_written(path):
                path.unlink()


def _is_being_written(partial: Path) -> bool:
    """Whether the process whose number a temporary file has is its writer, and goes on.

    It is not if it began after the file was written, so that it has the number by chance, or if it was killed and nobody has waited
    for it, as in a container without an init process.
    """
    import psutil

    written_s = partial.stat().st_mtime
    try:
        number = int(partial.name.split(".")[-2])
        os.kill(number, 0)
        writer = psutil.Process(number)
        # Both times are rounded.
        began_before = writer.create_time() <= written_s + 1
        return began_before and writer.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, ValueError, OverflowError, psutil.NoSuchProcess):
        return False
    except PermissionError:  # it is of another user
        return True


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
_SEAL = "crc32"


@dataclass(frozen=True)
class Digest:
    """Size in bytes, and CRC-32 (as of zlib) in hexadecimal."""

    bytes: int
    crc32: str


def digest_of(path: Path) -> Digest:
    """The digest of a file. Raises OSError."""
    with FileIO(path) as file:
        return _digest_of(file)


def difference_from(path: Path, recorded: Digest) -> str:
    """How a file differs from its digest; "" if it does not."""
    try:
        with FileIO(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size != recorded.bytes:
                return f"it has {size} bytes and was made with {recorded.bytes}"
            if _digest_of(file) != recorded:
                return f"its {size} bytes are not the ones that were made (CRC-32)"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return ""


def has_size_of(path: str, recorded: Digest) -> bool:
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


def _digest_of(file: FileIO) -> Digest:
    size, crc, chunk = 0, 0, memoryview(bytearray(DIGEST_CHUNK_BYTES))
    while read := file.readinto(chunk):
        size += read
        crc = zlib.crc32(chunk[:read], crc)
    return Digest(size, f"{crc:08x}")
