"""Write the report page over all runs that were kept, of any number of machines: the newest row of each cell, and what changed in which run.
It is one file, which needs no server and works in any folder of one.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from scripts.core import atomic, checkout, exits
from scripts.results.columns import TEXT, Field
from scripts.results.results_file import cell_of
from scripts.supervise import outcome
from scripts.tools.compare import series, store
from scripts.tools.compare.store import Damaged, Kept
from scripts.tools.report.web.page_source import NO_RESULTS, Source
from scripts.tools.report.write_report import page

PAGE = "index.html"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    option = parser.add_argument
    option("out", type=Path, metavar="DIR", help=f"the folder in which {PAGE} is written")
    folders = "folders with kept runs, or results folders (default: results/history)"
    option("--from", nargs="+", type=Path, default=[store.FOLDER], metavar="FOLDER", dest="folders", help=folders)  # fmt: skip
    args = parser.parse_args()
    runs = _runs(args.folders)
    try:
        source = _source(runs)
        atomic.write_text(args.out / PAGE, page(source, "vmfbench"))
    except (Damaged, OSError) as error:
        exits.fail(str(error))
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        exits.fail(f"a row has another form than expected ({type(error).__name__}: {error}); was it made by another version? `--from` names the folders to read")  # fmt: skip
    models = {row.model for row in source.rows}
    machines = {run.entry.machine.name for run in runs}
    print(f"{len(source.rows)} cells of {len(models)} models in {len(runs)} runs on {len(machines)} machines")  # fmt: skip
    print(args.out / PAGE)


def _runs(folders: list[Path]) -> list[Kept]:
    """Return the runs of some folders, oldest first. Exits if a folder has none."""
    runs: dict[str, Kept] = {}
    for folder in folders:
        inside = folder / store.FOLDER.name
        history = inside if inside.is_dir() else folder
        kept, wrong = store.read(history)
        if wrong:
            exits.fail(f"{wrong[0]}; delete its two files")
        if not kept:
            exits.fail(f"{history}: no run is kept; expected files <id>.json and <id>.jsonl.zst, which `{checkout.run_command('results/latency.csv')}` adds to results/history")  # fmt: skip
        runs |= {each.entry.id: each for each in kept}
    return sorted(runs.values(), key=lambda each: (each.entry.made, each.entry.id))


def _source(runs: list[Kept]) -> Source:
    """Return the newest row of each cell, of the machines that have its device if there are any. Raises Damaged."""
    newest: dict[str, tuple[bool, Kept, Any]] = {}
    for run in runs:
        for record in run.records():
            cell = str(cell_of(record))
            has_device = record["outcome"]["status"] != outcome.UNAVAILABLE
            if cell not in newest or has_device or not newest[cell][0]:
                newest[cell] = has_device, run, record
    # In the order of the models, however many runs have measured them.
    rows = sorted(newest.values(), key=lambda each: str(each[2]["model"]["name"]).lower())
    entries = [run.entry for _, run, _ in rows]
    columns = {
        "machine": ("Machine of the run.", [f"{entry.machine.cpu}, {entry.machine.cores} cores ({entry.machine.name[:8]})" for entry in entries]),
        "run": ("Run that has the row.", [entry.short for entry in entries]),
        "measured": ("When it was timed, or else when the run ended (UTC).", [series.when((record["latency"] or {}).get("started") or run.entry.made) for _, run, record in rows]),
    }  # fmt: skip
    further = [(Field("", TEXT, about, column=name), values) for name, (about, values) in columns.items()]  # fmt: skip
    return Source(NO_RESULTS, [record for _, _, record in rows], runs, further)
