"""Damage the files of a finished run, one at a time, and see whether each damage is named and healed: a cut by the next run, a bit
flip by `vmfbench check --files`.

    python -m benchmarks.damage --number 1000 --seed 1

The functions are asked by which runs decide whether a file is sound. docs/reliability.md has what came out.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from benchmarks.faults import Place
from scripts.iree.compile_cache import CachedCompilation, CompileCache
from scripts.run import fingerprint, outputs
from scripts.stages.check_expectations import changed_files
from scripts.supervise import group, journal, outcome

CACHE = CompileCache(Path("cache"), float("inf"))
NAMED, HARMLESS, AGAIN, UNNOTICED = "named", "same meaning", "made again", "NOT NOTICED"
KINDS = (
    "weights.irpa", "inputs.npz", "golden.npz", "module.vmfb", "program.mlir", "signature.json", "report.json",
    "verification.json", "timing.json", "timed.json", "limits.json", "status.json", "usage.json", "memory.json", "tools.json", "versions.json", "latency.csv", "latency.md", "results.jsonl", "aggregate.json",
    "journal.jsonl", "cache/*/*.json", "cache/modules/*/*.vmfb",
)  # fmt: skip


NO_DIGEST = (
    "status.json",
    "usage.json",
    "memory.json",
    "timed.json",
    "aggregate.json",
    "journal.jsonl",
)
"""Files that no other file has the checksum of."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.damage", description=__doc__)
    parser.add_argument("--number", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    place, draw = Place(Path(tempfile.mkdtemp(prefix="damage-"), "run")), random.Random(args.seed)
    os.chdir(place.folder)
    fill_cache()
    ends: dict[str, Counter[str]] = defaultdict(Counter)
    for at in range(args.number):
        kind = KINDS[at % len(KINDS)]
        there = sorted(Path().glob(kind if "/" in kind else f"results/**/{kind}"))
        path = draw.choice([path for path in there if path.stat().st_size])
        before, times = path.read_bytes(), path.stat()
        is_cut = draw.random() < 0.5
        judge = judge_of(path, is_cut)
        what = damage(path, is_cut, draw)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        ends[f"{kind}, {'cut' if is_cut else 'flipped'}"][said := judge()] += 1
        path.write_bytes(before)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        if said == UNNOTICED:
            print(f"# {at}: {path}: {what}", flush=True)
    for kind, said in sorted(ends.items()):
        came = ", ".join(f"{count} {word}" for word, count in said.most_common())
        print(f"| {kind} | {said.total()} | {came} |")


def damage(path: Path, is_cut: bool, draw: random.Random) -> str:
    """Cut a file or flip a bit of it; return what was done."""
    data = bytearray(path.read_bytes())
    at, bit = draw.randrange(len(data)), draw.randrange(8)
    if is_cut:
        path.write_bytes(data[:at])
        return f"cut to {at} of {len(data)} bytes"
    data[at] ^= 1 << bit
    path.write_bytes(data)
    return f"bit {bit} of byte {at} flipped"


def fill_cache() -> None:
    """Put the modules of the run into a cache of compilations, in this folder."""
    for number, vmfb in enumerate(sorted(Path("results/compile").rglob("module.vmfb"))):
        CACHE.put(f"{number:02}", CachedCompilation({"vmfb_bytes": vmfb.stat().st_size}), vmfb)


def judge_of(path: Path, is_cut: bool) -> Callable[[], str]:
    """What the run's own functions make of a file, compared with what they make of it now."""
    if path.parts[0] == "cache":
        names = [entry.stem for entry in CACHE.folder.glob("[0-9][0-9]/*.json")]
        return same(lambda: [CACHE.get(name, Path("copy.vmfb"))[0] for name in names], AGAIN)
    if not is_cut and path.name not in NO_DIGEST:
        status = path.with_name(outcome.STATUS)
        return lambda: (
            NAMED if is_named(path, status, changed_files(Path("results"))) else UNNOTICED
        )
    if path in outputs.FILES:
        return lambda: NAMED if str(path) in outputs.difference(path) else UNNOTICED
    match path.name:
        case "status.json":
            return same(lambda: outcome.read(path), NAMED)
        case "usage.json":
            return same(lambda: outcome.read_usage(path), NAMED)
        case "memory.json":
            return same(lambda: outcome.read_memory(path), "left out")
        case "timed.json":
            return same(lambda: group.kept_timing(path), AGAIN)
        case "aggregate.json":
            return same(lambda: outputs.due(outputs.FILES), AGAIN)
        case "journal.jsonl":  # of which nothing but the times of the last run is made
            return lambda: HARMLESS if journal.of_last_run(path, 1e10) or True else ""
    status = path.with_name(outcome.STATUS)
    return lambda: NAMED if is_named(path, status, condemned(path, status)) else UNNOTICED


def same(read: Callable[[], object], otherwise: str) -> Callable[[], str]:
    """Whether a file is read as before; `otherwise`: what becomes of one that is refused."""
    before = read()

    def judge() -> str:
        try:
            now = read()
        except ValueError:
            return otherwise
        refused = now is None or isinstance(now, str) or (isinstance(now, list) and None in now)
        return HARMLESS if now == before else otherwise if refused else UNNOTICED

    return judge


def condemned(path: Path, status: Path) -> Iterator[str]:
    """The difference of an artifact, as a stage that would read it records it."""
    yield (what := outcome.difference(path))
    outcome.condemn(status, what)


def is_named(path: Path, status: Path, differences: Iterable[str]) -> bool:
    """Whether the only difference is that of a file, and its stage is due again once that is recorded."""
    if path in outputs.FILES:
        return [path_of(what) for what in differences] == [str(path)]
    kept, due = status.read_bytes(), outcome.read(status).due
    named = [path_of(what) for what in differences]
    is_due = fingerprint.due(status, due.partition("+")[0]) != due
    status.write_bytes(kept)
    return named == [str(path)] and is_due


def path_of(what: str) -> str:
    return what.partition(" is damaged")[0]


if __name__ == "__main__":
    main()
