"""Print how large the code and the documentation are, and how far a reader has to go in them.

python -m benchmarks.house
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from scripts.core import checkout, python_source
from scripts.tools import registry

SCRIPTS = checkout.ROOT / "scripts"
COMMON = ("__init__", "feature", "settings", "stages", "rows", "page", "plan", "columns", "verbs")
"""Base names that packages share because they have the same part in each."""
WAY = (
    *("scripts.config.settings", "scripts.config.expansion", "scripts.run.plan", "scripts.stages.supervise"),
    *("scripts.stages.make_env", "scripts.stages.make_reference", "scripts.stages.export_program"),
    *("scripts.frontends.exporters.torch_mlir", "scripts.stages.compile_iree", "scripts.stages.verify_iree"),
    *("scripts.stages.time_group", "scripts.stages.time_module", "scripts.stages.aggregate_results"),
    "scripts.results.latency_page",
)  # fmt: skip
"""The modules that start what happens to a cell between config.yaml and latency.csv."""


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    files = [path for path in SCRIPTS.rglob("*.py") if "__pycache__" not in path.parts]
    names = Counter(path.stem for path in files if path.stem not in COMMON)
    repeated = sorted(name for name, count in names.items() if count > 1)
    way = [p for p in python_source.of_project(WAY, checkout.ROOT) if p.stem != "__init__"]
    shown = Table("what", "number", box=None)
    for what, number in (
        ("lines of Python under scripts/", _lines(files)),
        ("files of them", len(files)),
        ("lines of tests", _lines((checkout.ROOT / "tests").rglob("*.py"))),
        ("modules that a cell passes through", len(way)),
        (f"base names that repeat ({', '.join(repeated)})", len(repeated)),
        (
            "words of docs/",
            sum(len(p.read_text("utf-8").split()) for p in checkout.ROOT.glob("docs/*.md")),
        ),
        ("words of README.md", len((checkout.ROOT / "README.md").read_text("utf-8").split())),
        *(
            (f"lines of tools/{name}", _lines((SCRIPTS / "tools" / name).rglob("*.py")))
            for name in registry.NAMES
        ),
    ):
        shown.add_row(what, f"{number:,}")
    Console().print(shown)


def _lines(files: Iterable[Path]) -> int:
    return sum(path.read_text(encoding="utf-8").count("\n") for path in files)


if __name__ == "__main__":
    main()
