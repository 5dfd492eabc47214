"""Write the table of a default run into docs/performance.md: latencies with their bold, and how each program compiled for a GPU.
Then draw all tables of that page as one picture, docs/images/speedups.svg.

python -m benchmarks.latency_table results --machine "two cores of an AMD EPYC"
python -m benchmarks.latency_table                # only the picture

A table takes the place of the one of the same machine, or is written after the last one.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from scripts.core import atomic, checkout, exits
from scripts.results import wording

PAGE = checkout.ROOT / "docs/performance.md"
PICTURE = checkout.ROOT / "docs/images/speedups.svg"
ON_CPU = "llvm-cpu"
GPUS = ("vulkan-ada", "cuda", "rocm")
BEGIN, END = "<!-- table: {machine} -->\n", "<!-- end of table -->\n"
TABLES = re.compile(
    r"^<!-- table: (.*) -->\n(.*?)^<!-- end of table -->\n", re.MULTILINE | re.DOTALL
)
WAYS = ("does not compile", "by remedy", "compiles")
VERSIONS = (
    ("IREE", "iree_version", ""),
    ("torch-mlir", "frontend_version", "torchmlir"),
    ("PyTorch", "torch_version", ""),
    ("PyTorch/XLA", "frontend_version", "torchxla"),
)
"""Packages: their names, the column with the version, and how the lowering path of such a row begins."""
GREY, FASTER, SLOWER = "#7d8590", "#2f81f7", "#d29922"
"""Colours that can be read on white and on black."""
STYLE = {"svg.hashsalt": "vmfbench", "svg.fonttype": "none", "font.size": 9, "text.color": GREY}
STYLE |= {"axes.edgecolor": GREY, "axes.labelcolor": GREY, "xtick.color": GREY, "ytick.color": GREY}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.latency_table",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("results", type=Path, nargs="?", help="with latency.md and latency.csv")
    parser.add_argument("--machine", help="in words")
    args = parser.parse_args()
    if (args.results is None) != (args.machine is None):
        parser.error(
            "expected results together with --machine, or neither: then only the picture is drawn"
        )
    text = PAGE.read_text(encoding="utf-8")
    if args.results:
        page = (args.results / "latency.md").read_text(encoding="utf-8")
        with (args.results / "latency.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        day = re.search(r"^Measured (\S+)", page, re.MULTILINE)
        versions = ", ".join(f"{name} {_version(rows, *where)}" for name, *where in VERSIONS)
        said = f"A default run of {day[1] if day else '?'} on {args.machine}: {versions}."
        text = with_table(text, args.machine, f"\n{table(page, rows)}\n{said}\n\n")
        atomic.write_text(PAGE, text)
    ratios = {found[1]: speedups(found[2]) for found in TABLES.finditer(text)}
    if empty := [machine for machine, of_models in ratios.items() if not of_models]:
        exits.fail(
            f"{PAGE}: no model in the table of {empty[0]} has a latency of IREE and of eager or inductor"
        )
    draw(ratios, PICTURE)


def with_table(text: str, machine: str, body: str) -> str:
    """Return a page with the table of a machine, in place of its earlier one or after the last one. Exits if the page has none."""
    block = f"{BEGIN.format(machine=machine)}{body}{END}"
    tables = [*TABLES.finditer(text)]
    if not tables:
        exits.fail(f"{PAGE}: expected a table between {BEGIN!r} and {END!r}, found none")
    for found in tables:
        if found[1] == machine:
            return text[: found.start()] + block + text[found.end() :]
    at = tables[-1].end()
    return f"{text[:at]}\n{block}{text[at:]}"


def speedups(table: str) -> dict[str, float]:
    """How many times as fast as the faster of eager and inductor the fastest lowering path of each model of a table is.

    Models without a latency of both are left out.
    """
    head, _, *lines = [_cells(line) for line in table.splitlines() if line.startswith("|")]
    ratios = {}
    for cells in lines:
        latency = {
            name: float(value[1].replace(",", ""))
            for name, cell in zip(head, cells, strict=True)
            if name not in GPUS and (value := re.match(r"\**†?([\d.,]+) \(", cell))
        }
        baselines = [latency.pop(name) for name in ("eager", "inductor") if name in latency]
        if baselines and latency:
            ratios[cells[0]] = min(baselines) / min(latency.values())
    return ratios


def draw(ratios: Mapping[str, Mapping[str, float]], file: Path) -> None:
    """Draw a panel with a bar per model for each machine, the largest first, as an SVG without a background."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.5, 3.2 * len(ratios)), layout="constrained")
        panels = figure.subplots(len(ratios), squeeze=False)[:, 0]
        for axes, (machine, of_models) in zip(panels, ratios.items(), strict=True):
            models = sorted(of_models, key=of_models.__getitem__, reverse=True)
            values = [of_models[model] for model in models]
            # From 1, so that a bar that goes up is a gain and one that goes down is a loss.
            colours = [FASTER if value >= 1 else SLOWER for value in values]
            bars = axes.bar(models, [value - 1 for value in values], bottom=1, color=colours)
            axes.bar_label(
                bars, [f"{value:.2f}" for value in values], color=GREY, fontsize=8, padding=1
            )
            axes.axhline(1, color=GREY, linewidth=0.8)
            axes.set_yscale("log", base=2)
            axes.set_yticks([0.5, 1, 2, 4], ["½", "1", "2", "4"])
            axes.minorticks_off()
            axes.set_ylim(min(0.6, *(value / 1.3 for value in values)), max(values) * 1.3)
            axes.set_title(
                f"IREE's speed-up over the faster of eager and inductor: {machine}", fontsize=9
            )
            axes.tick_params(axis="x", rotation=40)
            for label in axes.get_xticklabels():
                label.set_horizontalalignment("right")
                label.set_rotation_mode("anchor")
            axes.spines[["top", "right", "bottom"]].set_visible(False)
            axes.tick_params(axis="x", length=0)
        file.parent.mkdir(exist_ok=True)
        figure.savefig(file, transparent=True, metadata={"Date": None})


def table(page: str, rows: list[dict[str, str]]) -> str:
    """Return the table as Markdown. `page`: latency.md; `rows`: those of latency.csv."""
    first = re.search(r"(?:^\|.*\n)+", page, re.MULTILINE)
    head, _, *lines = map(_cells, first[0].splitlines() if first else ())
    kept = [
        n for n, name in enumerate(head) if " on " not in name or name.endswith(f" on {ON_CPU}")
    ]
    ways = _ways(rows)
    names = [head[n].removesuffix(f" on {ON_CPU}") for n in kept]
    return wording.table(
        (*names, *GPUS),
        [
            (*(line[n].replace("†", "") for n in kept), *(ways[line[0], gpu] for gpu in GPUS))
            for line in lines
        ],
        right=range(1, len(names)),
    )


def _ways(rows: list[dict[str, str]]) -> dict[tuple[str, str], str]:
    """The best way in which a lowering path of a model has compiled for a target, by model and target."""
    found: dict[tuple[str, str], int] = defaultdict(int)
    for row in rows:
        way = 0 if not row["frontend_used"] else 1 if row["remedy"] else 2
        key = row["model"], row["target"]
        found[key] = max(found[key], way)
    return {key: WAYS[way] for key, way in found.items()}


def _version(rows: list[dict[str, str]], column: str, frontend: str) -> str:
    """The version in a column of the first row that has one and whose lowering path begins so."""
    for row in rows:
        if row[column] and row["frontend"].startswith(frontend):
            return row[column]
    exits.fail(
        f"latency.csv: no row of the lowering paths {frontend}* has the column {column}; expected a default run"
    )


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


if __name__ == "__main__":
    main()
