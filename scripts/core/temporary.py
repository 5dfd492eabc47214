"""Temporary folders that do not stay for good if the process that made them is killed: the next run deletes them.

Such a folder has a file that is locked for as long as it is in use. The kernel releases the lock when the process ends,
however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = "vmfbench-"
LOCK = ".vmfbench-in-use"
"""A folder without this file is not one of these, and is never deleted."""
MACHINE = "VMFBENCH_MACHINE_TMPDIR"
"""The environment variable with the machine's folder for temporary files, of a process whose TMPDIR is its own."""


def machine() -> str:
    """The machine's folder for temporary files. Raises FileNotFoundError if there is none that can be written."""
    return os.environ.get(MACHINE) or tempfile.gettempdir()


@contextlib.contextmanager
def folder(kind: str) -> Iterator[Path]:
    """A new folder, which is deleted at the end. `kind`: a part of its name. Raises OSError."""
    path, lock = _locked(f"{PREFIX}{kind}-")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


@contextlib.contextmanager
def own(kind: str) -> Iterator[None]:
    """Give this process, and those that it starts, such a folder as their TMPDIR. If none can be made, for example on a full
    disk, they keep the machine's."""
    before, tempdir = dict(os.environ), tempfile.tempdir
    with contextlib.ExitStack() as opened:
        try:
            variables = {MACHINE: machine(), "TMPDIR": str(opened.enter_context(folder(kind)))}
        except OSError as error:
            print(f"note: temporary files go to the machine's folder: {error}", file=sys.stderr)
            variables = {}
        os.environ.update(variables)
        tempfile.tempdir = None
        try:
            yield
        finally:
            for name in variables:
                os.environ.pop(name)
            os.environ.update({name: before[name] for name in variables if name in before})
            tempfile.tempdir = tempdir


def clear() -> None:
    """Delete the folders whose process was killed."""
    with contextlib.suppress(FileNotFoundError):  # there is no folder for temporary files
        for lock in Path(machine()).glob(f"{PREFIX}*/{LOCK}"):
            # Those of other users cannot be opened.
            with contextlib.suppress(OSError), lock.open("r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)


def _locked(prefix: str) -> tuple[Path, int]:
    """A new folder, and the descriptor of its lock."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=machine()))
        try:
            lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            path.rmdir()
            raise
        with contextlib.suppress(OSError):  # a file system without locks: it is not cleared either
            fcntl.flock(lock, fcntl.LOCK_EX)
        if (path / LOCK).exists():
            return path, lock
        os.close(lock)  # another process has cleared it before it was locked
