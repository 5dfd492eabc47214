"""A folder of compilations that users, checkouts and machines share: the same program with the same flags is compiled once.

    <folder>/<2 digits>/<key>.json what the stage reports, and the digest of the module, or what a failed compiler printed
    <folder>/<2 digits>/<key>.vmfb the module

Each file is renamed into place, and its name tells its content. So there are no locks: if two machines
compile the same program, the later entry stays. A damaged entry is named, compiled again and replaced. The folder may be
deleted at any time. Its modules are loaded and run, so whoever can write into it can run code as its readers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.core import atomic, machine
from scripts.core.atomic import Digest

FOLDER = "VMFBENCH_COMPILATIONS"
"""Environment variable with the folder. Without it, nothing is shared."""
MOST_GB = "VMFBENCH_COMPILATIONS_GB"
"""Environment variable with the most that the folder holds, in GB."""
DEFAULT_GB = 20.0
FORMAT = 2
"""Version of the entries. A new version compiles all programs again."""
KEPT = 0.9
"""The share of the size limit that stays once it was exceeded: the entries that were used last."""
UNFINISHED_S = 86_400
"""The age in seconds from which a half-written file belongs to a process that was killed."""
LOG_CHARS = 64_000
"""Maximum length of the stored output of a failed compiler, from its start and its end each."""
OF_THE_MACHINE = ("No space left", "Too many open files", "Resource temporarily unavailable", "bad_alloc", "out of memory", "annot allocate memory")  # fmt: skip
"""Words of failures that say nothing about a program. They are not kept."""


@dataclass(frozen=True)
class CachedCompilation:
    """The result of a compilation. `report`: what the stage writes, without times and memory; empty for a failure, whose
    output is `printed`. `module`: the digest of the module."""

    report: Mapping[str, Any] = field(default_factory=dict)
    printed: str = ""
    module: Digest | None = None


@dataclass(frozen=True)
class CompileCache:
    """The folder, and the most bytes that it holds: inf for no limit."""

    folder: Path
    most_bytes: float

    def get(self, key: str, vmfb: Path) -> tuple[CachedCompilation | None, str]:
        """Return the compilation of a key, with a copy of its module at `vmfb`; None if there is none. The second value says
        what is damaged, or is ""."""
        entry, module = self._paths(key)
        try:
            values = unsealed(atomic.read_json(entry))
            digest = values["module"] and Digest(**values["module"])
            known = CachedCompilation(values["report"], values["printed"], digest)
            if digest:
                atomic.copy(module, vmfb)
                if what := atomic.difference_from(vmfb, digest):
                    return None, f"{module}: {what}"
        except FileNotFoundError:
            return None, ""
        except (OSError, KeyError, TypeError, ValueError) as error:
            return None, f"{entry}: {error}"
        touch(entry)
        touch(module)
        return known, ""

    def put(self, key: str, compiled: CachedCompilation, vmfb: Path | None = None) -> None:
        """Keep a compilation and its module, and delete what was used least recently if the folder is too large. Raises OSError."""
        entry, module = self._paths(key)
        if vmfb:
            compiled = dataclasses.replace(compiled, module=atomic.digest_of(vmfb))
            atomic.copy(vmfb, module)
        atomic.write_json(entry, sealed(dataclasses.asdict(compiled)))
        if self.most_bytes < float("inf"):
            trim(self.folder, self.most_bytes)

    def _paths(self, key: str) -> tuple[Path, Path]:
        stem = self.folder / key[:2] / key
        return stem.with_suffix(".json"), stem.with_suffix(".vmfb")


def of_environment() -> CompileCache | None:
    """The cache that the environment variables name; None if they name none. Raises ValueError for a size that is no number
    of GB, and for a folder that is a file."""
    named = os.environ.get(FOLDER)
    if not named:
        return None
    folder, given = Path(named).expanduser().absolute(), os.environ.get(MOST_GB)
    try:
        most_gb = float(given) if given else DEFAULT_GB
    except ValueError:
        most_gb = 0.0
    if not 0 < most_gb < float("inf"):
        raise ValueError(f"{MOST_GB}: found {given!r}, expected a number of GB above 0, such as 20")
    if folder.exists() and not folder.is_dir():
        raise ValueError(
            f"{FOLDER}: {folder} is no folder; name one, which is made if it is missing"
        )
    return CompileCache(folder, most_gb * 1e9)


def key(program: Path, flags: Sequence[str], compiler: str) -> str:
    """The key of a compilation: a hash of the program, of the flags and the files that they name, of the compiler (tools.identity), and of the
    CPU that the code is for."""
    words = [FORMAT, compiler, host_cpu(flags)]
    for flag in flags:
        option, _, value = flag.partition("=")
        file = Path(value)
        is_file = bool(value) and file.is_file()
        words.append([option, _sha256(file)] if is_file else flag)
    hashed = hashlib.sha256(json.dumps(words).encode())
    hashed.update(_sha256(program).encode())
    return hashed.hexdigest()


def host_cpu(flags: Sequence[str]) -> str:
    """The CPU of this machine if a flag says that the code is for it, as a part of keys; else ""."""
    return machine.cpu_features() if any(flag.endswith("=host") for flag in flags) else ""


def kept_output(returncode: int, lines: Sequence[str]) -> str | None:
    """What is kept of the output of a failed compiler; None for a failure that may not occur again: a signal, one without a
    diagnostic, and one of the machine."""
    text = "".join(lines)
    if returncode != 1 or "error:" not in text or any(word in text for word in OF_THE_MACHINE):
        return None
    return text if len(text) <= 2 * LOG_CHARS else f"{text[:LOG_CHARS]}\n…\n{text[-LOG_CHARS:]}"


def touch(path: Path) -> None:
    """Note that a file has been used, for `trim`."""
    with contextlib.suppress(OSError):  # others may own it, or have deleted it
        os.utime(path)


def trim(folder: Path, most_bytes: float) -> None:
    """Delete the files of a folder that were used least recently, if all are larger than `most_bytes` together, and
    half-written ones of processes that were killed. Other processes may use the folder meanwhile."""
    files = []
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # another process has deleted it
            known = path.stat()
            if path.is_file():
                files.append((known.st_mtime, known.st_size, path))
    total = sum(size for _, size, _ in files)
    allowed = most_bytes * KEPT if total > most_bytes else float("inf")
    for used, size, path in sorted(files):
        is_partial = path.suffix == ".partial"
        if time.time() - used > UNFINISHED_S if is_partial else total > allowed:
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size


_SEAL = "crc32"


def sealed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of an entry with a checksum of them: other machines read it."""
    return {**values, _SEAL: _checksum(values)}


def unsealed(values: Any) -> dict[str, Any]:
    """The values of an entry without their checksum. Raises ValueError or TypeError if it is missing or that of other values."""
    own = {key: value for key, value in {**values}.items() if key != _SEAL}
    if values.get(_SEAL) != _checksum(own):
        raise ValueError("its values are not the ones that were written (CRC-32)")
    return own


def _checksum(values: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(values, sort_keys=True).encode()):08x}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
