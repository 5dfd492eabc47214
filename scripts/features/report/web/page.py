"""Write the page: the template, the styles, the libraries, the scripts of the views, and the data.

The data is in elements of its own, one per view and per block of details, so that the page
decompresses what it shows. A Content-Security-Policy allows the scripts of this page by their
hashes and nothing else: no other script, no network.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from string import Template

from scripts.features.report.web import details, rows
from scripts.features.report.web.packing import packed, policy_hash
from scripts.features.report.web.source import Source
from scripts.features.report.web.views import VIEWS

HERE = Path(__file__).parent
LIBRARIES = ("vendor/d3.min.js", "vendor/plot.min.js")
SCRIPTS = (
    "assets/core.js",
    "assets/cells.js",
    "assets/charts.js",
    "assets/table.js",
    "assets/filters.js",
    "assets/details.js",
    *(f"views/{view.name}.js" for view in VIEWS),
    "assets/app.js",
)
"""The scripts of the page, in order."""


def page(source: Source) -> str:
    """Return the page as HTML."""
    scripts = [_text(name) for name in (*LIBRARIES, *SCRIPTS)]
    return Template(_text("assets/page.html")).substitute(
        policy=_policy(scripts),
        style=_text("assets/style.css"),
        data="\n".join(_elements(source)),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def _policy(scripts: list[str]) -> str:
    """Return the Content-Security-Policy. Styles may be inline, because charts set them."""
    hashes = " ".join(map(policy_hash, scripts))
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:;"
        " base-uri 'none'; form-action 'none'"
    )


def _elements(source: Source) -> Iterator[str]:
    """Yield the elements with the data."""
    selected = {view.name: view.select(source) for view in VIEWS}
    views = [
        {
            "name": one.name,
            "title": one.title,
            "missing": one.missing,
            "has_data": selected[one.name] is not None,
        }
        for one in VIEWS
    ]
    yield _element("views", {"views": views, "block": details.BLOCK})
    yield _element("rows", rows.table(source))
    for name, data in selected.items():
        yield _element(f"view-{name}", data)
    for number, block in enumerate(details.blocks(source)):
        yield _element(f"details-{number}", block)


def _element(name: str, value: object) -> str:
    return f'<script type="text/plain" id="data-{name}">{packed(value)}</script>'


def _text(name: str) -> str:
    """Return a file of the page. Raises ValueError if it would end its element."""
    text = (HERE / name).read_text(encoding="utf-8")
    if "</script" in text.lower() and not name.endswith(".html"):
        raise ValueError(f"{name}: contains </script, which would end its element")
    return text
