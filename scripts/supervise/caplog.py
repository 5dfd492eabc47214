"""A log that keeps the head and the tail of what a tool prints, and its diagnostics.

A failing iree-compile prints thousands of lines of IR. The first lines say what failed, the last ones
how it ended, and the `error:` lines in between are what a reader looks for.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Protocol

HEAD_BYTES = 64 * 1024
TAIL_BYTES = 64 * 1024
LINE_BYTES = 4000
KEPT_DIAGNOSTICS = 200
_MARKS = (b"error:", b"Error:", b"ERROR", b"Assertion", b"terminate called", b"what():")


class Log(Protocol):
    """Receives the output of a stage: a CappedLog, which documents the methods, or several of them in turn."""

    @property
    def last_line(self) -> str: ...
    def note(self, text: str) -> None: ...
    def feed(self, data: bytes) -> None: ...
    def insert(self, text: str) -> None: ...


class CappedLog:
    """Write-once log file; `feed` takes raw bytes, `close` writes the kept tail.

    Raises OSError if the file cannot be made. Text that cannot be written later, for example to a
    full disk, is lost, and `lost` says why: a stage does not fail because of its log.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("wb", buffering=0)
        self.lost: OSError | None = None
        self._pending = bytearray()
        self._last = b""
        self._head_left = HEAD_BYTES
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._dropped_lines = 0
        self._dropped_bytes = 0
        self._diagnostics: list[bytes] = []
        self._rest = b""
        self._cut_in_line = 0

    def note(self, text: str) -> None:
        """Write a line of the supervisor's own (its command, its verdict)."""
        self._pending += text.encode() + b"\n"
        self._flush()

    @property
    def last_line(self) -> str:
        """The last line that was fed and is not blank, stripped; "" if there is none."""
        line = self._rest.strip() or self._last
        return line[:LINE_BYTES].decode("utf-8", "replace")

    def feed(self, data: bytes) -> None:
        """Take what the tool printed, in pieces of any size."""
        *lines, rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line)
        # An unfinished line may be as long as a weight literal: keep only what will be shown.
        if len(rest) > LINE_BYTES:
            self._cut_in_line += len(rest) - LINE_BYTES
            rest = rest[:LINE_BYTES]
        self._rest = rest
        self._flush()

    def insert(self, text: str) -> None:
        """Add a line of the supervisor's own at the present position of the output."""
        self.feed((b"\n" if self._rest else b"") + text.encode() + b"\n")

    def close(self) -> None:
        """Write the rest: omitted diagnostics, then the tail."""
        if self._file.closed:
            return
        if self._rest or self._cut_in_line:
            self._line(self._rest)
            self._rest = b""
        if self._dropped_lines:
            dropped = (self._dropped_lines, self._dropped_bytes)
            self._pending += b"[... %d lines (%d bytes) left out ...]\n" % dropped
            for line in self._diagnostics:
                self._pending += b"[left out, but a diagnostic] " + line + b"\n"
        for line in self._tail:
            self._pending += line + b"\n"
        self._tail.clear()
        self._flush()
        try:
            self._file.close()
        except OSError as error:  # NFS says here that the disk is full
            self.lost = self.lost or error

    def _line(self, line: bytes) -> None:
        self._last = line.strip() or self._last
        cut = self._cut_in_line + max(0, len(line) - LINE_BYTES)
        self._cut_in_line = 0
        if cut:
            line = line[:LINE_BYTES] + b" [... %d bytes of this line left out]" % cut
        if self._head_left > 0:
            self._head_left -= len(line) + 1
            self._pending += line + b"\n"
            return
        self._tail.append(line)
        self._tail_size += len(line) + 1
        while self._tail_size > TAIL_BYTES and len(self._tail) > 1:
            dropped = self._tail.popleft()
            self._tail_size -= len(dropped) + 1
            self._dropped_lines += 1
            self._dropped_bytes += len(dropped) + 1
            if len(self._diagnostics) < KEPT_DIAGNOSTICS and any(m in dropped for m in _MARKS):
                self._diagnostics.append(dropped)

    def _flush(self) -> None:
        data, self._pending = self._pending, bytearray()
        try:
            while data and self.lost is None:
                del data[: self._file.write(data)]
        except OSError as error:
            self.lost = error
