"""results/history/: every aggregate once, compressed.

`<id>.jsonl.zst` has the records, as the aggregation wrote them. `<id>.json` says when, where and with what they were
made. The id is the SHA-256 of the records (16 hex digits), so an aggregate with the same content is kept once, and
the histories of two folders are merged by copying their files into one. `<id>.passes.zst` has the time of iree-compile by pass.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from scripts.core import atomic, checkout, machine, private
from scripts.features.compare.history import passes
from scripts.features.compare.history.passes import Compilation
from scripts.features.compare.pairs import toolchain_of, versions_of

FOLDER = Path("results/history")
LEVEL = 10
"""Compression level of zstandard."""
MOST_BYTES = 2**31
"""Of the records of an aggregate: more than a hundred thousand rows have."""
PASSES = ".passes.zst"
KINDS = ("latency", "kernels", "tuned")
"""The aggregates that are kept: the names of their CSV files."""


class Machine(msgspec.Struct, frozen=True):
    """The machine that aggregated: a name that only tells machines apart (its host name, of histories from before), its CPU, and the cores that could be used."""

    name: str
    cpu: str
    cores: int


class Entry(msgspec.Struct, frozen=True):
    """One aggregate. `made`: when it was aggregated, in seconds since the epoch. `measured`: when the timing of its
    first and of its last group began; None if nothing was timed. `commit`: of the checkout, with `-dirty` if files
    differed from it; "" if it is not known. `toolchains`: versions by package, by toolchain. `statuses`: number of
    rows by status. `commits`: of the repository in which the run was started, which is the checkout's or your own; several if
    the same rows were kept at several commits."""

    id: str
    kind: str
    made: float
    measured: tuple[float, float] | None
    commit: str
    machine: Machine
    toolchains: dict[str, dict[str, list[str]]]
    statuses: dict[str, int]
    commits: list[str] = []

    @property
    def rows(self) -> int:
        """Number of records."""
        return sum(self.statuses.values())

    @property
    def at(self) -> float:
        """When its last group was timed, or else when it was made, in seconds since the epoch."""
        return self.measured[1] if self.measured else self.made

    @property
    def versions(self) -> str:
        """The versions, such as `PyTorch 2.15.0, IREE 3.13.0`, by toolchain if there are several."""
        texts = {
            toolchain: ", ".join(
                f"{name} {' and '.join(numbers)}" for name, numbers in packages.items()
            )
            for toolchain, packages in self.toolchains.items()
        }
        if len(texts) == 1:
            return next(iter(texts.values()))
        return "; ".join(f"{toolchain}: {text}" for toolchain, text in texts.items())

    @property
    def short(self) -> str:
        """The first digits of its id, for tables."""
        return self.id[:8]


class Damaged(Exception):
    """An entry of the history that cannot be read. Says which one, and why."""


@dataclass(frozen=True)
class Kept:
    """An entry, and the file with its records."""

    entry: Entry
    path: Path

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield its records. Raises Damaged if they are not those that were kept."""
        try:
            yield from _decoded(self.text())
        except (msgspec.MsgspecError, RecursionError) as error:
            raise Damaged(f"{self.path}: no records ({error}); delete it") from error

    def text(self) -> bytes:
        """Return its records as lines of JSON. Raises Damaged if they are not those that were kept."""
        text = _unpacked(self.path)
        if id_of(text) != self.entry.id:
            raise Damaged(f"{self.path}: its content is not the one that was kept")
        return text

    def compilations(self) -> dict[str, Compilation]:
        """The time of iree-compile by pass of the cells of which it was known. Raises Damaged."""
        path = self.path.with_name(f"{self.entry.id}{PASSES}")
        if not path.exists():
            return {}
        try:
            return msgspec.json.decode(_unpacked(path), type=dict[str, Compilation])
        except (msgspec.MsgspecError, RecursionError) as error:
            raise Damaged(f"{path}: no times of passes ({error}); delete it") from error


def _unpacked(path: Path) -> bytes:
    """The content of a file. Raises Damaged."""
    import zstandard

    try:
        with zstandard.open(path) as file:
            text = file.read(MOST_BYTES + 1)
    except (OSError, zstandard.ZstdError) as error:
        raise Damaged(f"{path}: cannot be read ({error})") from error
    if len(text) > MOST_BYTES:
        raise Damaged(f"{path}: unpacks to more than {MOST_BYTES:,} bytes; delete it")
    return text


def keep(records: Path, kind: str) -> None:
    """Add an aggregate, a file of records, to the history beside it.

    If the history has the same records already, only the commit is added, and the times of passes. An error is printed and does not stop the run: the
    results themselves are complete.
    """
    folder = records.parent / FOLDER.name
    try:
        import zstandard

        text = records.read_bytes()
        name = id_of(text)
        about = folder / f"{name}.json"
        if times := passes.of_rows(_decoded(text), records.absolute().parent.parent):
            packed = zstandard.compress(msgspec.json.encode(times), LEVEL)
            atomic.write_bytes(folder / f"{name}{PASSES}", packed)
        if about.exists():
            known = msgspec.json.decode(about.read_bytes(), type=Entry)
            here = commit(records.absolute().parent)
            if here and here not in known.commits:
                more = msgspec.structs.replace(known, commits=[*known.commits, here])
                atomic.write_json(about, msgspec.to_builtins(more))
            return
        entry = _described(name, kind, _decoded(text), records.parent)
        # The description is last: an entry without one is not complete, and is written again.
        atomic.write_bytes(folder / f"{name}.jsonl.zst", zstandard.compress(text, LEVEL))
        atomic.write_json(about, msgspec.to_builtins(entry))
    except Exception as error:  # whatever it is: nothing of the run depends on the history
        print(f"note: {records} was not added to the history: {error}", file=sys.stderr)


def _described(
    name: str, kind: str, records: Iterable[Mapping[str, Any]], records_of: Path
) -> Entry:
    """The description of an aggregate that is made now, on this machine. `records_of`: the folder with its file."""
    here = commit(records_of.absolute().parent)
    statuses: Counter[str] = Counter()
    versions: dict[str, dict[str, set[str]]] = {}
    started: list[float] = []
    for record in records:
        statuses[record["outcome"]["status"]] += 1
        known = versions.setdefault(toolchain_of(record), {})
        for package, version in versions_of(record).items():
            known.setdefault(package, set()).add(version)
        if latency := record.get("latency"):
            started.append(latency["started"])
    return Entry(
        name,
        kind,
        round(time.time(), 3),
        (min(started), max(started)) if started else None,
        commit(checkout.ROOT),
        Machine(private.machine_id(), machine.cpu_name(), machine.physical_cores()),
        {
            toolchain: {package: sorted(known) for package, known in sorted(packages.items())}
            for toolchain, packages in sorted(versions.items())
        },
        dict(sorted(statuses.items())),
        [here] if here else [],
    )


def commit(folder: Path) -> str:
    """Return the commit of the repository of a folder, with `-dirty` if its files differ from it; "" if it is not known."""
    words = ["describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"]
    command = ["git", "-C", str(folder), *words]
    # Without its locks, git does not disturb another git in the checkout.
    quiet = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True, env=quiet)  # fmt: skip
    except (OSError, subprocess.SubprocessError):  # no git, or no repository
        return ""
    return done.stdout.strip()


def read(folder: Path, kinds: Sequence[str] = ("latency",)) -> tuple[list[Kept], list[str]]:
    """Return the entries of these kinds, and what is wrong with those that cannot be read.

    They are in the order in which they were made. A run in which the cell that fails was the last one to be measured
    has an older last timing than the run before it.
    """
    kept, wrong = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            entry = msgspec.json.decode(path.read_bytes(), type=Entry)
        except (OSError, msgspec.MsgspecError) as error:
            wrong.append(f"{path}: not an entry of a history ({error})")
            continue
        if entry.id != path.stem:
            wrong.append(f"{path}: is the entry {entry.id!r:.80}, expected the name of its file")
        elif entry.kind in kinds:
            kept.append(Kept(entry, path.with_name(f"{entry.id}.jsonl.zst")))
    return sorted(kept, key=lambda entry: (entry.entry.made, entry.entry.id)), wrong


def _decoded(text: bytes) -> Iterator[dict[str, Any]]:
    """Yield the records of lines of JSON."""
    return (msgspec.json.decode(line) for line in text.split(b"\n") if line.strip())


def id_of(text: bytes) -> str:
    """Return the id of records, given as lines of JSON."""
    return hashlib.sha256(text).hexdigest()[:16]
