"""Print, for each model, IREE's fastest lowering path on a target beside the other runtimes of its group, and the ratio to the fastest.

    snakemake --cores 2 results/latency.csv --config targets=llvm-cpu baselines=eager,inductor,onnxruntime,openvino,executorch
    python -m benchmarks.fastest

It reads results/results.jsonl and starts nothing. IREE's path is chosen by the same measurements, which favours it
slightly. Ratios above 1 say that IREE takes longer than the fastest other runtime.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from pathlib import Path

from scripts.config.cell import EVAL, PINNED
from scripts.core import exits
from scripts.results import results_file, speedups, wording
from scripts.results.row import Row, Timing


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fastest", description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results/results.jsonl"))
    parser.add_argument("--target", default="llvm-cpu", help="whose rows (default: %(default)s)")
    args = parser.parse_args()
    try:
        records = results_file.read(args.results)
    except (results_file.BadRecords, OSError) as error:
        exits.fail(str(error))
    by_model: dict[str, list[Row]] = defaultdict(list)
    of_target = [r.data for r in records if r.is_iree and r["target"] == args.target]
    devices = {record["experiment"]["device"] for record in of_target}
    for record in (r.data for r in records):
        row, experiment = Row.of_record(record), record["experiment"]
        at_it = row.column.target in ("", args.target) and experiment["device"] in devices
        is_pinned = (experiment.get("toolchain") or PINNED) == PINNED
        if row.test == EVAL and at_it and is_pinned:
            by_model[row.model].append(row)
    print(table(by_model), end="")


def table(by_model: dict[str, list[Row]]) -> str:
    """A Markdown table: a line per model, a column per runtime."""
    rows = [row for of_model in by_model.values() for row in of_model]
    others = list(dict.fromkeys(row.runtime for row in rows if not row.column.target))
    lines = []
    for model, of_model in by_model.items():
        paths = [row for row in of_model if row.column.target and row.timing]
        rivals = {row.runtime: row for row in of_model if not row.column.target}
        best, rival = fastest(paths), fastest([row for row in rivals.values() if row.timing])
        own = f"{_ms(best)} ({best.column.name})" if best else "–"
        shown = [_ms(rivals[name]) if name in rivals else "–" for name in others]
        ratio = _ratio(best.timing, rival.timing) if best and rival else "–"
        lines.append((model, own, *shown, rival.runtime if rival else "–", ratio))
    header = ("model", "IREE (path)", *others, "fastest other", "IREE ÷ fastest other")
    return wording.table(header, lines, right=range(1, len(header)))


def fastest(rows: list[Row]) -> Row | None:
    """The row with the lowest latency. Each has one."""
    return min(rows, key=lambda row: row.timing.ms if row.timing else math.inf, default=None)


def _ms(row: Row) -> str:
    return wording.milliseconds(row.timing.ms) if row.timing else row.why


def _ratio(own: Timing, other: Timing) -> str:
    """How many times as long `own` takes, with its interval."""
    at = speedups.difference(own.latency, other.latency)
    if at is None:
        return f"{own.ms / other.ms:.2f}"
    interval = at.interval()
    return f"{interval.ratio:.2f} ({interval.low:.2f} to {interval.high:.2f})"


if __name__ == "__main__":
    main()
