"""What inductor finds out or makes once per machine, so that no compilation of a model has to: which vector instructions the CPU has
(seven seconds), and the precompiled header of its kernels (158 MB, eight seconds of CPU time; with it, a kernel takes a third).

The TMPDIR of a stage is its own and empty at first, so torch would do both anew in each.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import torch._inductor.codecache as codecache
import torch._inductor.cpu_vec_isa as cpu_vec_isa
from torch._inductor.runtime.cache_dir_utils import default_cache_dir

from scripts.core import temporary

CACHE = "TORCHINDUCTOR_CACHE_DIR"
_KERNEL = 'extern "C" void kernel(float*) {}'
"""A kernel of no model: torch precompiles the header when it is asked to compile one, with the same flags for all."""


def prepare() -> None:
    """Let torch have both, from the machine's folder if that is safe. Raises OSError.

    A process in a sandbox reads a header that is there, and leaves its own in its TMPDIR.
    """
    shared = _folder()
    headers = Path(default_cache_dir(), "precompiled_headers")
    headers.mkdir(parents=True, exist_ok=True)
    codecache._HEADER_DIR, codecache._HEADER_LOCK_DIR = str(headers), str(headers / "locks")
    writable = shared if shared and os.access(shared, os.W_OK) else None
    with _locked(writable), _cache(writable):
        cpu_vec_isa.valid_vec_isa_list()  # kept by torch for this process
        if shared:
            for path in shared.glob("*.h*"):
                _link(headers / path.name, path)
        codecache.CppPythonBindingsCodeCache.load_pybinding_async(
            ["float*"],
            _KERNEL,
            submit_fn=lambda _compile: None,
        )
        if writable:
            # Complete files only: with one that was cut off, g++ ends with an error.
            for path in headers.glob("*.h*"):
                if not path.is_symlink():
                    path.replace(writable / path.name)
                    _link(path, writable / path.name)


def _link(path: Path, target: Path) -> None:
    with contextlib.suppress(FileExistsError):
        path.symlink_to(target)


def _folder() -> Path | None:
    """This user's folder on this machine. None if there is none and none can be made, or if others than this user can write to it: they could
    put code there that this process runs."""
    path = Path(temporary.machine(), f"{temporary.PREFIX}inductor-{os.getuid()}")
    with contextlib.suppress(OSError):  # it exists, or this process is in a sandbox
        path.mkdir(mode=0o700)
    try:
        at = path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(at.st_mode) and at.st_uid == os.getuid() and not at.st_mode & 0o022:
        return path
    print(f"note: {path} is not used: it should be a folder of this user to which no other can write; delete it", flush=True)  # fmt: skip
    return None


@contextlib.contextmanager
def _locked(folder: Path | None) -> Iterator[None]:
    """One process at a time: the others wait, and then have what it has made."""
    if folder is None:
        yield
        return
    with (folder / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _cache(folder: Path | None) -> Iterator[None]:
    """Inductor's cache is in this folder meanwhile (None: in that for temporary files)."""
    before = os.environ.pop(CACHE, None)
    if folder:
        os.environ[CACHE] = str(folder)
    try:
        yield
    finally:
        os.environ.pop(CACHE, None)
        if before is not None:
            os.environ[CACHE] = before
