"""Write static pages of all runs that were kept: what reaches what today, each model over all runs, what each run and each release of
a toolchain changed, each machine; a feed of changes, badges, and the rows as CSV and Parquet. They need no server, and work in any folder
of one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from scripts.core import checkout, exits
from scripts.features.compare.history import store
from scripts.features.compare.history.store import Damaged, Kept
from scripts.features.site import building


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    option = parser.add_argument
    option(
        "out", type=Path, metavar="DIR", help="the folder of the site, which is made or replaced"
    )
    folders = "folders with kept runs, or results folders (default: results/history)"
    option("--from", nargs="+", type=Path, default=[store.FOLDER], metavar="FOLDER", dest="folders", help=folders)  # fmt: skip
    cores = len(os.sched_getaffinity(0))
    option("--jobs", type=int, default=cores, metavar="N", help="processes (default: all cores)")
    args = parser.parse_args()
    if args.jobs < 1:
        parser.error(f"--jobs: found {args.jobs}, expected 1 or more")
    out: Path = args.out
    if out.exists() and not (out.is_dir() and ((out / building.MARK).is_file() or not any(out.iterdir()))):  # fmt: skip
        exits.fail(f"{out}: is no site (it has no {building.MARK}) and not empty; name a new folder, or delete it")  # fmt: skip
    runs, results = _runs(args.folders)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        exits.fail(f"{out}: cannot be made ({error}); name a folder that can be written")
    try:
        print(building.build(unfinished, runs, results, args.jobs))
        unfinished.chmod(0o755)
        if out.exists():
            shutil.rmtree(out)
        unfinished.rename(out)
    except (Damaged, OSError) as error:
        exits.fail(str(error))
    except BrokenProcessPool as error:
        exits.fail(f"{error} A smaller number of --jobs needs less memory.")
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    print(out / "index.html")


def _runs(folders: list[Path]) -> tuple[list[Kept], dict[str, Path]]:
    """Return the runs of some folders, oldest first, and the results folders by the run whose files they still have. Exits if a folder has none."""
    runs: dict[str, Kept] = {}
    results: dict[str, Path] = {}
    for folder in folders:
        inside = folder / store.FOLDER.name
        history = inside if inside.is_dir() else folder
        kept, wrong = store.read(history)
        if wrong:
            exits.fail(f"{wrong[0]}; delete its two files")
        if not kept:
            exits.fail(f"{history}: no run is kept; expected files <id>.json and <id>.jsonl.zst, which `{checkout.run_command('results/latency.csv')}` adds to results/history")  # fmt: skip
        runs |= {each.entry.id: each for each in kept}
        records = history.parent / "results.jsonl"
        if records.is_file() and (name := store.id_of(records.read_bytes())) in runs:
            results[name] = history.parent
    return sorted(runs.values(), key=lambda each: (each.entry.made, each.entry.id)), results
