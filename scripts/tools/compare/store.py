"""results/history/: every aggregate once, compressed; and a branch of a repository with these files in its top folder, so that what
others have measured is there for comparisons.

`<id>.jsonl.zst` has the records, as the aggregation wrote them. `<id>.json` says when, where and with what they were
made. The id is the SHA-256 of the records (16 hex digits), so an aggregate with the same content is kept once, and
the histories of two folders are merged by copying their files into one. `<id>.passes.zst` has the time of iree-compile by pass, where
`snakemake compile_time` had measured it when the run was kept.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from scripts.config import stages
from scripts.config.cell import Cell, Kind
from scripts.config.stages import STATUS
from scripts.core import atomic, checkout, machine, private, temporary
from scripts.core.checkout import commit
from scripts.results import at_hand, results_file
from scripts.results.results_file import BadRecords, cell_of
from scripts.supervise import outcome
from scripts.tools.compare.pairs import toolchain_of, versions_of

ALL_PASSES = "all passes"


class Compilation(msgspec.Struct, frozen=True):
    """A compilation of a program on one thread. `iree`: the version. `seconds`: by pass; ALL is the compiler itself."""

    iree: str | None
    seconds: dict[str, float]


def compilations_of_rows(
    records: Iterable[Mapping[str, Any]], root: Path
) -> dict[str, Compilation]:
    """The compilations of the programs of some rows, by cell. `root`: the folder of their results/.

    Those that were measured before the program of the row was compiled are of another program or compiler, and left out.
    """
    by_cell: dict[str, Compilation] = {}
    for record in records:
        if record["experiment"]["runtime"] != "iree":
            continue
        cell = cell_of(record)
        file = compile_profile(root, cell)
        status = root / stages.STAGES["compile"].path(cell.to(Kind.MODULE), STATUS)
        if (
            file is None
            or not status.is_file()
            or file.stat().st_mtime_ns < status.stat().st_mtime_ns
        ):
            continue
        if seconds := seconds_by_pass(file):
            by_cell[str(cell)] = Compilation(record["versions"]["iree"], seconds)
    return by_cell


def compile_profile(root: Path, cell: Cell) -> Path | None:
    """The file in which scripts.tools.profile.profile_compile has written the times of a program; None if there is none. `root`: the folder of
    results/."""
    if (stage := stages.STAGES.get("profile_compile")) is None:
        return None
    file = root / stage.path(cell.to(Kind.MODULE).to(Kind.IREE_DUMP), "compile.json")
    return file if file.is_file() and file.stat().st_size else None


def seconds_by_pass(file: Path) -> dict[str, float]:
    """The seconds of the compiler itself, ALL_PASSES, and of each pass by its name; {} if the compilation failed."""
    measured = atomic.read_json(file)
    if measured["program"]["status"] != outcome.OK:
        return {}
    return {ALL_PASSES: measured["total_s"]} | {
        part["name"]: part["s"] for part in measured["passes"]
    }


def read_compilations(
    kept: Iterable[Kept], selects: Callable[[str], bool]
) -> dict[str, list[tuple[Entry, Compilation]]]:
    """The compilations of the selected cells with the first run that has each, the oldest first. Raises Damaged."""
    by_cell: dict[str, list[tuple[Entry, Compilation]]] = {}
    for run in kept:
        for cell, compilation in run.compilations().items():
            if selects(cell):
                of_cell = by_cell.setdefault(cell, [])
                if not of_cell or of_cell[-1][1] != compilation:
                    of_cell.append((run.entry, compilation))
    return by_cell


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


class Damaged(BadRecords):
    """An entry of the history that cannot be read. Says which one, and why."""


@dataclass(frozen=True)
class Kept:
    """An entry, and the file with its records."""

    entry: Entry
    path: Path

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield its records. Raises Damaged if they are not those that were kept, or none of this project."""
        for number, line in enumerate(self.text().split(b"\n"), start=1):
            if not line.strip():
                continue
            try:
                results_file.check_line(line)
                record = msgspec.json.decode(line)
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
                raise Damaged(
                    f"{self.path}:{number}: {error}; expected a record of this project. Delete its two files to leave this run out"
                ) from error
            yield record

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
        if times := compilations_of_rows(_decoded(text), records.absolute().parent.parent):
            packed = zstandard.compress(msgspec.json.encode(times), LEVEL)
            atomic.write_bytes(folder / f"{name}{PASSES}", packed)
        if about.exists():
            known = msgspec.json.decode(about.read_bytes(), type=Entry)
            here = at_hand.commit(records.parent)
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
    here = at_hand.commit(records_of)
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
        "" if checkout.INSTALLED else commit(checkout.ROOT),
        Machine(private.machine_id(), machine.cpu_name(), machine.physical_cores()),
        {
            toolchain: {package: sorted(known) for package, known in sorted(packages.items())}
            for toolchain, packages in sorted(versions.items())
        },
        dict(sorted(statuses.items())),
        [here] if here else [],
    )


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
    return (msgspec.json.decode(line) for line in text.split(b"\n") if line.strip())


def id_of(text: bytes) -> str:
    """Return the id of records, given as lines of JSON."""
    return hashlib.sha256(text).hexdigest()[:16]


ATTEMPTS = 5
"""Pushes that are tried: another job may push to the branch at the same time."""
AUTHOR = ("-c", "user.name=vmfbench", "-c", "user.email=vmfbench@localhost")


def git(*words: str, **variables: str) -> bytes:
    """The output of git in the working folder, with these environment variables. Raises BadRecords."""
    try:
        done = subprocess.run(
            ["git", *words], capture_output=True, timeout=60, env=os.environ | variables
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadRecords(f"git cannot be run: {error}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip() or "it found nothing"
        raise BadRecords(f"git {' '.join(words)}: {said}")
    return done.stdout


def extract(commit: str, folder: Path) -> None:
    """Write the files of a commit or branch to a folder. Raises BadRecords."""
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit))) as archive:
        archive.extractall(folder, filter="data")


def publish(history: Path, name: str) -> str:
    """Add the files of a history to a branch of a remote repository, and say what was done.

    `name`: `REMOTE/BRANCH`. The branch is made if there is none. It keeps the files that it has; an entry that both have is of the
    commits of both. The working folder, its index and its branches stay as they are. Raises BadRecords.
    """
    remote, _, branch = name.partition("/")
    if not branch:
        raise BadRecords(f"--publish {name}: expected REMOTE/BRANCH, such as origin/{name}")
    files = _own_files(history)
    if not files:
        raise BadRecords(f"{history}: no run is kept, so there is nothing to publish")
    for attempt in range(ATTEMPTS):
        tip = git("ls-remote", remote, f"refs/heads/{branch}").decode().partition("\t")[0]
        if tip:
            git("fetch", "--quiet", "--no-tags", remote, f"refs/heads/{branch}")
        commit, added = _commit(files, tip)
        if not added:
            return f"{name} has these runs already"
        try:
            git("push", "--quiet", remote, f"{commit}:refs/heads/{branch}")
            break
        except BadRecords:
            if attempt == ATTEMPTS - 1:
                raise
    return f"{added} files were added to {name}"


def _own_files(history: Path) -> list[Path]:
    """The files of the runs of a history, without any others in its folder. Raises BadRecords for a link and for a damaged run."""
    kept, wrong = read(history, KINDS)
    if wrong:
        raise BadRecords(f"{wrong[0]}; delete it to publish the others")
    files = []
    for run in kept:
        about, passes = (run.path.with_name(f"{run.entry.id}{end}") for end in (".json", PASSES))
        own = [about, run.path, *([passes] if os.path.lexists(passes) else [])]
        if link := next((path for path in own if path.is_symlink()), None):
            raise BadRecords(f"{link}: is a link, expected a file; nothing was published")
        deque(run.records(), maxlen=0)
        run.compilations()
        files += own
    return files


def _commit(files: list[Path], tip: str) -> tuple[str, int]:
    """A commit on `tip` ("": the first one) with these files too, and how many of them are new or differ."""
    with temporary.folder("history") as scratch:
        folder, added = scratch / "files", 0
        folder.mkdir()
        if tip:
            extract(tip, folder)
        for path in files:
            added += _add_entry(path, folder / path.name)
        if not added:
            return tip, 0
        index = {"GIT_INDEX_FILE": str(scratch / "index")}
        where = f"--git-dir={Path(git('rev-parse', '--absolute-git-dir').decode().strip())}"
        git(where, f"--work-tree={folder}", "add", "--all", "--force", ".", **index)
        tree = git("write-tree", **index).decode().strip()
        parent = ("-p", tip) if tip else ()
        words = (*AUTHOR, "commit-tree", tree, *parent, "-m", f"{added} files of runs")
        return git(*words).decode().strip(), added


def _add_entry(path: Path, place: Path) -> bool:
    """Copy a file of a history to another one, unless that has the same. An entry of both gets the commits of both."""
    if not place.is_file():
        shutil.copyfile(path, place)
        return True
    if path.suffix != ".json":
        # Records are named by their content; times of passes may have been measured again.
        is_new = path.name.endswith(PASSES) and path.read_bytes() != place.read_bytes()
        if is_new:
            shutil.copyfile(path, place)
        return is_new
    ours, theirs = (msgspec.json.decode(each.read_bytes(), type=Entry) for each in (path, place))
    lacking = [commit for commit in ours.commits if commit not in theirs.commits]
    if lacking:
        merged = msgspec.structs.replace(theirs, commits=[*theirs.commits, *lacking])
        atomic.write_json(place, msgspec.to_builtins(merged))
    return bool(lacking)
