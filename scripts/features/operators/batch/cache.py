"""A cache of compilations, so that the same program is not compiled again.

    <folder>/<2 digits>/<key>.json an outcome; of one that is ok, the module and the function
    <folder>/modules/<2 digits>/<digest>.vmfb a module, which may hold many functions

Each file is written whole or not at all, and its name identifies its content. So runs may share the folder, also at the
same time: if two runs compile the same program, the later entry stays. A damaged or missing file counts as not cached.
Nothing outside the folder refers to it, so it may be deleted while no run is in progress.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from scripts.core import atomic
from scripts.core.atomic import Digest
from scripts.iree import compile_cache
from scripts.supervise import outcome

FORMAT = 2
"""Version of the entries and of the combined modules. A new version compiles all programs again."""


@dataclass(frozen=True)
class Entry:
    """The result of compiling a program.

    `status`, `reason`, `detail` and `limit`: as in an outcome. `log`: the compiler's output for a failure, which names
    the file `source`. `code`: fingerprint of the code that it ended under. `module`: digest of the module's content.
    `function`: the program's name in it. `made`: size and checksum of its file. `seconds`: time of the compiler's
    process, divided by its number of programs `together`.
    """

    status: str
    seconds: float
    together: int
    reason: str = ""
    detail: str = ""
    limit: float | None = None
    log: str = ""
    source: str = ""
    code: str = ""
    module: str = ""
    function: str = ""
    made: Digest | None = None

    def of_file(self, path: Path) -> Entry:
        """Return the entry as of the same program in another file, which its messages then name."""
        if not self.source:
            return self
        return dataclasses.replace(
            self,
            detail=self.detail.replace(f"[{Path(self.source).name}:", f"[{path.name}:"),
            log=self.log.replace(self.source, str(path)),
            source=str(path),
        )


def key(text: str, flags: Sequence[str], compiler: str) -> str:
    """Return the key of a compilation: a hash of the normalised program, flags, compiler and the CPU that the code is for."""
    cpu = compile_cache.host_cpu(flags)
    hashed = hashlib.sha256()
    for part in (str(FORMAT), compiler, cpu, str(len(flags)), *flags, text):
        hashed.update(part.encode() + b"\0")
    return hashed.hexdigest()


class Cache:
    """The folder of a cache. It is created with the first entry."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, known_by: str, code: str, limits: dict[str, float]) -> Entry | None:
        """Return the cached result of a program, or None if it has to be compiled. A failure is
        valid only for the code that it failed under. A failure at a limit is valid only for that
        limit. `limits`: the present limits by status."""
        path = self._entry(known_by)
        try:
            entry = msgspec.convert(compile_cache.unsealed(atomic.read_json(path)), Entry)
            compile_cache.touch(path)
            if entry.status == outcome.OK:
                module = self.module(entry.module)
                compile_cache.touch(module)
                return (
                    entry if entry.made and not atomic.difference_from(module, entry.made) else None
                )
        except (OSError, TypeError, ValueError):
            return None
        moved = entry.status in limits and limits[entry.status] != entry.limit
        return None if entry.code != code or moved else entry

    def put(self, known_by: str, entry: Entry) -> None:
        """Store the result of a program, unless it has another cause (a full disk, a signal)."""
        if entry.reason not in outcome.PASSING:
            atomic.write_json(
                self._entry(known_by), compile_cache.sealed(dataclasses.asdict(entry))
            )

    def put_module(self, vmfb: Path) -> tuple[str, Digest]:
        """Move a module into the cache; return the digest of its content, its size and checksum."""
        with vmfb.open("rb") as file:
            name = hashlib.file_digest(file, "sha256").hexdigest()
        recorded = atomic.digest_of(vmfb)
        atomic.move(vmfb, self.module(name))
        return name, recorded

    def module(self, name: str) -> Path:
        """Return the path of a module with this digest of its content."""
        return self._folder / "modules" / name[:2] / f"{name}.vmfb"

    def place(self, name: str, folder: Path) -> Path:
        """Link or copy a module into `folder` and return its path. On the same file system it is a
        hard link, so that it remains if the cache is deleted."""
        placed = folder / f"{name}.vmfb"
        if not placed.exists():
            folder.mkdir(parents=True, exist_ok=True)
            aside = folder / f".{name}.{os.getpid()}.partial"
            try:
                os.link(self.module(name), aside)
            except OSError:  # another file system, or one without links
                shutil.copyfile(self.module(name), aside)
            os.replace(aside, placed)
        return placed

    def _entry(self, known_by: str) -> Path:
        return self._folder / known_by[:2] / f"{known_by}.json"
