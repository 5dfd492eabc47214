"""Write the page: the template, the styles, the libraries, the scripts of the views, and the data.

The data is in elements of its own, one per view and per block of details, so that the page decompresses what it shows. It is
JSON, compressed with gzip, as base64, which has no `<` and no quote: nothing in the data can end its element. A
Content-Security-Policy allows the scripts of this page by their hashes and nothing else: no other script, no network.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from scripts.core import private
from scripts.features.report.web import page_source, views
from scripts.features.report.web.page_source import Source, View
from scripts.records import wording

HERE = Path(__file__).parent
LIBRARIES = ("vendor/d3.min.js", "vendor/plot.min.js")
SCRIPTS = ("core", "cells", "charts", "table", "filters", "details")
"""Names of the scripts before those of the views, in order."""
STYLE = "assets/style.css"
LEVEL = 6
"""Level of gzip: with 9, the page of 5,000 rows is 2 % smaller and takes twice as long to make."""


def page(source: Source) -> str:
    """Return the page as HTML."""
    shown = views.loaded()
    scripts = [text(HERE / name) for name in script_names(shown)]
    provenance = source.table.provenance
    when = provenance.when and f"measured {provenance.when}"
    title = " · ".join(filter(None, (wording.title(source.table), when)))
    return filled(
        elements(source, shown, page_source.table_of_rows(source), title),
        title="vmfbench report",
        styles=f"<style>{text(HERE / STYLE)}</style>",
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
        allowed=" ".join(map(policy_hash, scripts)),
        instead="results/latency.md has the main table as text.",
    )


def script_names(shown: Sequence[View]) -> list[str]:
    """Return the files of a page's scripts, relative to this folder, in order."""
    assets = [f"assets/{name}.js" for name in SCRIPTS]
    of_views = dict.fromkeys(f"views/{view.script or view.name}.js" for view in shown)
    return [*LIBRARIES, *assets, *of_views, "assets/app.js"]


def filled(
    data: Iterable[str],
    *,
    title: str,
    styles: str,
    scripts: str,
    allowed: str,
    instead: str,
    beside: str = "",
    home: str = "vmfbench",
) -> str:
    """Return the template of a page with these parts, which are HTML.

    `data`: the elements with the data. `allowed`: the sources from which scripts are allowed; `beside`: those from which styles and
    pictures are. `home`: what the heading says. `instead`: where the data is for a browser without JavaScript.
    """
    # Styles may be inline, because charts set them.
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline' {beside};"
        f" img-src data: blob: {beside}; base-uri 'none'; form-action 'none'"
    )
    return Template(text(HERE / "assets/page.html")).substitute(
        policy=policy,
        title=html.escape(title),
        styles=styles,
        home=home,
        instead=instead,
        data="\n".join(data),
        scripts=scripts,
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


def elements(
    source: Source,
    shown: Sequence[View],
    table: Mapping[str, Any],
    title: str,
    root: str = "",
    with_details: bool = True,
) -> Iterator[str]:
    """Yield the elements with the data. `table`: the rows, of rows.table. `title`: what the heading says about the data. `root`: the way from the page to the
    folder of its site."""
    selected = {view.name: _selected(view, source) for view in shown}
    kept = [view for view in shown if view.missing or selected[view.name] is not None]
    tabs = [
        {
            "name": view.name,
            "script": view.script or view.name,
            "title": view.title,
            "missing": view.missing,
            "has_data": selected[view.name] is not None,
        }
        for view in kept
    ]
    about = {"views": tabs, "block": page_source.BLOCK, "title": title, "root": root}
    yield _element("views", about)
    yield _element("rows", table)
    for view in kept:
        yield _element(f"view-{view.name}", selected[view.name])
    for number, block in enumerate(page_source.details_of_rows(source) if with_details else ()):
        yield _element(f"details-{number}", block)


def _selected(view: View, source: Source) -> object:
    """Return the data of a view. Raises ValueError, with the name of the view, if a file that it reads has another form."""
    try:
        return view.select(source)
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
