"""Damage the files of a finished run, one bit flip or cut at a time, and see whether each is named and healed.

    python -m benchmarks.damage --number 1000 --seed 1

The functions are asked by which runs decide whether a file is sound. docs/reliability.md has what came out.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

from benchmarks.faults import Place
from scripts.features.operators.batch.cache import Cache, Entry
from scripts.run import fingerprint, outputs
from scripts.supervise import group, journal, outcome

NAMED, HARMLESS, AGAIN, UNNOTICED = "named", "same meaning", "made again", "NOT NOTICED"
KINDS = (
    "weights.irpa", "inputs.npz", "golden.npz", "module.vmfb", "program.mlir", "signature.json", "report.json",
    "verification.json", "timing.json", "timed.json", "limits.json", "status.json", "usage.json", "memory.json", "tools.json", "versions.json", "latency.csv", "latency.md", "results.jsonl", "aggregate.json",
    "journal.jsonl", "cache/*/*.json", "cache/modules/*/*.vmfb",
)  # fmt: skip


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
        judge, before, times = judge_of(path), path.read_bytes(), path.stat()
        what = damage(path, draw)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        ends[kind][said := judge()] += 1
        path.write_bytes(before)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        if said == UNNOTICED:
            print(f"# {at}: {path}: {what}", flush=True)
    for kind, said in ends.items():
        came = ", ".join(f"{count} {word}" for word, count in said.most_common())
        print(f"| `{kind}` | {said.total()} | {came} |")


def damage(path: Path, draw: random.Random) -> str:
    """Flip a bit of a file or cut it; return what was done."""
    data = bytearray(path.read_bytes())
    at, bit = draw.randrange(len(data)), draw.randrange(8)
    if draw.random() < 0.3:
        path.write_bytes(data[:at])
        return f"cut to {at} of {len(data)} bytes"
    data[at] ^= 1 << bit
    path.write_bytes(data)
    return f"bit {bit} of byte {at} flipped"


def fill_cache() -> None:
    """Put the modules of the run into a cache of compilations, in this folder."""
    for number, vmfb in enumerate(sorted(Path("results/compile").rglob("module.vmfb"))):
        cache = Cache(Path("cache"))
        module, made = cache.put_module(Path(shutil.copy(vmfb, "copy.vmfb")))
        entry = Entry("ok", 0.5, 2, log="said", code="c0de", module=module, function="f", made=made)
        cache.put(f"{number:02}", entry)


def judge_of(path: Path) -> Callable[[], str]:
    """What the run's own functions make of a file, compared with what they make of it now."""
    if path.parts[0] == "cache":
        names = [entry.stem for entry in Path("cache").glob("[0-9][0-9]/*.json")]
        return same(lambda: [Cache(Path("cache")).get(name, "c0de", {}) for name in names], AGAIN)
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
    return lambda: NAMED if is_named(path) else UNNOTICED


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


def is_named(path: Path) -> bool:
    """Whether the difference of an artifact is named, and its stage is due again once that is recorded."""
    what, status = outcome.difference(path), path.with_name(outcome.STATUS)
    kept, due = status.read_bytes(), outcome.read(status).due
    outcome.condemn(status, what)
    is_due = fingerprint.due(status, due.partition("+")[0]) != due
    status.write_bytes(kept)
    return str(path) in what and is_due


if __name__ == "__main__":
    main()
