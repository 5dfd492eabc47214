"""The fingerprint of a stage: the version of its code, and signs of the machine's devices.

Every supervisor imports it, so it needs no configuration.
"""

from __future__ import annotations

import functools
import glob
import hashlib
import shutil
import socket

from scripts.iree.backends import BACKENDS


def fingerprint(version: int, wants_device: bool) -> str:
    """Everything that may change how a failed cell ends beside its request and its files: the version of the code, and for
    stages that need a device or a compiler of the machine, which of these the machine has, and which machine it is."""
    if not wants_device:
        return str(version)
    machine = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:4]
    return f"{version}-{_machine_signs()}@{machine}"


@functools.cache
def _machine_signs() -> str:
    """A hash of the device files and compilers of this machine.

    A cell that found no device runs again when the hash changes. Looking for files is cheap, while
    asking every driver at each start is not.
    """
    patterns = {
        sign for backend in BACKENDS.values() for sign in (*backend.signs, *backend.gpu_signs)
    }
    signs = sorted({path for pattern in patterns for path in glob.glob(pattern)})
    # inductor compiles with the machine's own compiler.
    signs += [name for name in ("c++", "g++", "clang++") if shutil.which(name)]
    return hashlib.sha256("\n".join(signs).encode()).hexdigest()[:6]
