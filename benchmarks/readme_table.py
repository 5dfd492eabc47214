"""Write the table of README.md from a default run: latencies with their bold, and how each program compiled for a GPU.

python -m benchmarks.readme_table results --machine "two cores of an AMD EPYC"
"""

from __future__ import annotations

import argparse
import csv
import re
from collections import defaultdict
from pathlib import Path

from scripts.core import atomic, checkout
from scripts.records import markdown

ON_CPU = "llvm-cpu"
GPUS = ("vulkan-ada", "cuda", "rocm")
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->\n"
WAYS = ("does not compile", "by remedy", "compiles")
VERSIONS = (
    ("IREE", "iree_version", ""),
    ("torch-mlir", "frontend_version", "torchmlir"),
    ("PyTorch", "torch_version", ""),
    ("PyTorch/XLA", "frontend_version", "torchxla"),
)
"""Packages: their names, the column with the version, and how the lowering path of such a row begins."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readme_table", description=__doc__)
    parser.add_argument("results", type=Path, help="with latency.md and latency.csv")
    parser.add_argument("--machine", required=True, help="in words")
    parser.add_argument("--readme", type=Path, default=checkout.ROOT / "README.md")
    args = parser.parse_args()
    page = (args.results / "latency.md").read_text(encoding="utf-8")
    with (args.results / "latency.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    versions = ", ".join(f"{name} {_version(rows, *where)}" for name, *where in VERSIONS)
    day = re.search(r"^Measured (\S+)", page, re.MULTILINE)
    said = f"A default run of {day[1] if day else '?'} on {args.machine}: {versions}. In brackets: 99 % intervals."
    before, _, rest = args.readme.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    text = f"{before}{BEGIN}\n{table(page, rows)}\n{said}\n\n{END}{after}"
    atomic.write_text(args.readme, text)


def table(page: str, rows: list[dict[str, str]]) -> str:
    """Return the table as Markdown. `page`: latency.md; `rows`: those of latency.csv."""
    first = re.search(r"(?:^\|.*\n)+", page, re.MULTILINE)
    head, _, *lines = map(_cells, first[0].splitlines() if first else ())
    kept = [
        n for n, name in enumerate(head) if " on " not in name or name.endswith(f" on {ON_CPU}")
    ]
    ways = _ways(rows)
    names = [head[n].removesuffix(f" on {ON_CPU}") for n in kept]
    return markdown.table(
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
    return next(row[column] for row in rows if row[column] and row["frontend"].startswith(frontend))


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


if __name__ == "__main__":
    main()
