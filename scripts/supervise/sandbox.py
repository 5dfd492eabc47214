"""A process that can write to a few folders only, and reach no network: for stages of model files that are not trusted.

Such a file is read first, and refused if it would run code (scripts/frontends/sources/). A fault of that check, or of the native code that reads
and runs the file, must not reach further than the stage. The process gets user, mount and network namespaces of its own (Linux 5.12,
user_namespaces(7)), in which all file systems are read-only but these folders, and gives up the capabilities that it has there.
Other processes' sockets in the file system are hidden: one of a session or of a container service runs commands. It can read
what its user can read. A namespace costs nothing per call.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import struct
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from scripts.core import process

# linux/sched.h, linux/mount.h, linux/prctl.h, linux/capability.h. Python 3.12 has os.unshare.
_NEW_MOUNTS, _NEW_USER, _NEW_NETWORK = 0x00020000, 0x10000000, 0x40000000
_BIND, _RECURSIVE, _PRIVATE = 4096, 16384, 1 << 18
_MOUNT_SETATTR = 442
"""mount_setattr's number, which is the same on all architectures."""
_AT_FDCWD, _AT_RECURSIVE, _READ_ONLY = -100, 0x8000, 1
_CAPBSET_DROP, _NO_NEW_PRIVILEGES = 24, 38
_CAPABILITIES, _CAPABILITY_VERSION = 64, 0x20080522

_OF_THE_KERNEL = ("/proc/sys", "/proc/sysrq-trigger")
"""Settings of the machine. Of a process's own files in /proc, stages write clear_refs."""
_SHARED_MEMORY = "/dev/shm"
_libc = ctypes.CDLL(None, use_errno=True)


def enter(writable: Iterable[str]) -> None:
    """Restrict this process, which has one thread, and those that it will start. `writable`: the folders that they may write to,
    which exist. Raises OSError if this system does not permit it; the process may then be restricted in part."""
    kept = [os.path.realpath(folder) for folder in writable]
    sockets = _sockets()
    user, group = os.getuid(), os.getgid()
    _require(_libc.unshare(_NEW_USER | _NEW_MOUNTS | _NEW_NETWORK), "unshare")
    for name, text in (("setgroups", "deny"), ("gid_map", f"{group} {group} 1"), ("uid_map", f"{user} {user} 1")):  # fmt: skip
        Path("/proc/self", name).write_text(text, encoding="ascii")
    _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    for folder in (*kept, *filter(os.path.exists, _OF_THE_KERNEL)):
        _mount(folder, folder, None, _BIND | _RECURSIVE)
    for path in sockets:
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            _mount("/dev/null", path, None, _BIND)
    if os.path.isdir(_SHARED_MEMORY):
        _mount("tmpfs", _SHARED_MEMORY, "tmpfs", 0)
    _set_read_only("/", True, _AT_RECURSIVE)
    for folder in (*kept, "/proc", *filter(os.path.isdir, [_SHARED_MEMORY])):
        _set_read_only(folder, False, 0)
    os.chdir(os.getcwd())  # the folder of the new mounts
    _drop_capabilities()


def folders(own: Path, env: Mapping[str, str]) -> list[str]:
    """The folders that a stage writes to: its own, and that for its temporary files."""
    return [str(own), env["TMPDIR"]] if "TMPDIR" in env else [str(own)]


@functools.cache
def unavailable() -> str:
    """Why this system does not permit it; "" if it does. Tries it in a forked process."""

    def attempt() -> bytes:
        try:
            enter([folder])
            Path(folder, "file").write_bytes(b"")
        except OSError as error:
            return str(error).encode()
        return b""

    with tempfile.TemporaryDirectory() as folder:
        code, said = process.forked(attempt)
    return said.decode(errors="replace") or (f"a process that tried it ended with {code}" if code else "")  # fmt: skip


def described(writable: Sequence[str]) -> str:
    """A line for the log of a stage that is to run in it."""
    if why := unavailable():
        return f"# no sandbox: this system does not permit one ({why}); the model file was only checked"
    return f"# in a sandbox: no network, and it can write only to {' and '.join(writable)}"


def _sockets() -> list[str]:
    """The sockets in the file system that a process could connect to. NVIDIA's services run no commands."""
    with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as lines:
        paths = {line.rstrip("\n").split(" ", 7)[-1].lstrip() for line in lines}
    return [path for path in sorted(paths) if path.startswith("/") and "nvidia" not in path and os.path.exists(path)]  # fmt: skip


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    _require(_libc.mount(*words, ctypes.c_ulong(flags), None), f"mount {target}")


def _set_read_only(path: str, read_only: bool, flags: int) -> None:
    bit = (_READ_ONLY, 0) if read_only else (0, _READ_ONLY)
    attributes = struct.pack("=QQQQ", *bit, 0, 0)
    done = _libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path), flags, attributes, ctypes.c_size_t(len(attributes)))  # fmt: skip
    _require(done, f"mount_setattr {path}")


def _drop_capabilities() -> None:
    """Without them, it cannot undo this; nor can a program that it starts get any."""
    for capability in range(_CAPABILITIES):
        # It fails for numbers that the kernel does not have.
        _libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0)
    _require(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")
    header, none = struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24)
    _require(_libc.capset(header, none), "capset")


def _require(done: int, what: str) -> None:
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
