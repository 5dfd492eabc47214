"""Write the rows of the last run as one page that can be opened without a network. It runs nothing of the workflow.

The data is in elements of its own, one per view and per block of details, so that the page decompresses what it shows. It is
JSON, compressed with gzip, as base64, which has no `<` and no quote: nothing in the data can end its element. A
Content-Security-Policy allows the scripts of this page by their hashes and nothing else: no other script, no network.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import html
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from string import Template

from scripts.core import atomic, checkout, commands, exits, private
from scripts.results import results_file, wording
from scripts.results.results_file import BadRecords
from scripts.tools import registry
from scripts.tools.report.web import details, page_source, row_views
from scripts.tools.report.web.page_source import AGAIN, Source, View

HERE = Path(__file__).parent / "web"
SCRIPTS = (
    *("vendor/d3.min.js", "vendor/plot.min.js"),
    *(f"assets/{name}.js" for name in ("core", "sections", "rows", "overview", "latency", "app")),
)
"""The files of the scripts, in order."""
LEVEL = 6
"""Level of gzip: with 9, the page of 5,000 rows is 2 % smaller and takes twice as long to make."""
VIEWS = (
    View("overview", "Overview", row_views.overview, script="overview"),
    View("latency", "Latency", row_views.latency, script="latency"),
    View("threads", "Threads", row_views.threads, "All rows were measured on one number of threads. To measure on several: " + checkout.run_command("results/latency.csv", "measure='{threads: [1, 2]}'") + AGAIN),
    View("failures", "Failures", row_views.failures),
    View("memory", "Memory", row_views.memory),
    View("training", "Training", row_views.training, f"No training steps were measured. To measure them: {checkout.run_command('results/latency.csv', 'tests=eval,train')}{AGAIN}"),
)  # fmt: skip
"""The views of the rows: each is a function that returns its sections (scripts/results/page_sections.py)."""


def views() -> list[View]:
    """All views, in the order of their tabs: those of the rows, then those of the other features (registry.VIEWS)."""
    modules = map(importlib.import_module, registry.VIEWS)
    return [*VIEWS, *(view for module in modules for view in module.VIEWS)]


def page(source: Source, title: str = "vmfbench report") -> str:
    """Return the page as HTML."""
    scripts = [text(HERE / name) for name in SCRIPTS]
    # Styles may be inline, because charts set them.
    policy = (
        f"default-src 'none'; script-src {' '.join(map(policy_hash, scripts))}; style-src 'unsafe-inline';"
        " img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return Template(text(HERE / "assets/page.html")).substitute(
        policy=policy,
        title=html.escape(title),
        style=text(HERE / "assets/style.css"),
        data="\n".join(_data(source)),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def packed(value: object) -> str:
    """Return a JSON value as base64 of gzip. The same value gives the same text.

    Raises ValueError for NaN and infinities.
    """
    whole = json.dumps(
        private.cleaned(value), allow_nan=False, ensure_ascii=False, separators=(",", ":")
    )
    return base64.b64encode(gzip.compress(whole.encode(errors="replace"), LEVEL, mtime=0)).decode()


def policy_hash(script: str) -> str:
    """Return the source expression that allows one inline script in a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _data(source: Source) -> Iterator[str]:
    """Yield the elements with the data."""
    selected = {view: _selected(view, source) for view in views()}
    tabs = [
        {
            "name": view.name,
            "script": view.script,
            "title": view.title,
            "filtered": view.filtered,
            "missing": view.missing,
            "has_data": data is not None,
        }
        for view, data in selected.items()
        if data is not None or view.missing
    ]
    provenance = source.table.provenance
    when = provenance.when and f"measured {provenance.when}"
    heading = " · ".join(filter(None, (wording.title(source.table), when)))
    yield _element("views", {"views": tabs, "block": details.BLOCK, "title": heading})
    yield _element("rows", page_source.table_of_rows(source))
    for view, data in selected.items():
        yield _element(f"view-{view.name}", data)
    for number, block in enumerate(details.of_rows(source)):
        yield _element(f"details-{number}", block)


def _selected(view: View, source: Source) -> object:
    """Return the data of a view. Raises ValueError, with the name of the view, if a file that it reads has another form."""
    try:
        return view.data(source)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        what = str(error) if isinstance(error, ValueError) else repr(error)
        raise ValueError(f"view {view.title}: {what}") from error


def _element(name: str, value: object) -> str:
    return f'<script type="text/plain" id="data-{name}">{packed(value)}</script>'


def text(path: Path) -> str:
    """Return a file of the page. Raises ValueError if it would end its element."""
    content = path.read_text(encoding="utf-8")
    if "</script" in content.lower() and path.suffix != ".html":
        raise ValueError(f"{path}: contains </script, which would end its element")
    return content


RESULTS, OUT = Path("results/results.jsonl"), Path("results/report.html")


def main() -> None:
    registry.load()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    parser.add_argument("--out", type=Path, default=OUT, help=f"default: {OUT}")
    args = parser.parse_args()
    try:
        records = results_file.read(args.results)
        with results_file.explained(records):
            text = page(Source(args.results.parent, [record.data for record in records]))
        atomic.write_text(args.out, text)
        print(f"{args.out}: {len(records)} rows")
    except (BadRecords, OSError) as error:
        exits.fail(str(error))
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        exits.fail(
            f"a file below {args.results.parent} has another form than expected ({type(error).__name__}: {error}); was it "
            "made by another version? Its next run makes it again"
        )


if __name__ == "__main__":
    commands.run(main)
