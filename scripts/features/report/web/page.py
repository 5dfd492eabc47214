"""Write the page: the template, the styles, the libraries, the scripts of the views, and the data.

The data is in elements of its own, one per view and per block of details, so that the page decompresses what it shows. It is
JSON, compressed with gzip, as base64, which has no `<` and no quote: nothing in the data can end its element. A
Content-Security-Policy allows the scripts of this page by their hashes and nothing else: no other script, no network.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from string import Template

from scripts.core import private
from scripts.features.report.web import rows, views
from scripts.features.report.web.page_source import Source, View

HERE = Path(__file__).parent
LIBRARIES = ("vendor/d3.min.js", "vendor/plot.min.js")
SCRIPTS = ("core", "cells", "charts", "table", "filters", "details")
"""Names of the scripts before those of the views, in order."""
LEVEL = 6
"""Level of gzip: with 9, the page of 5,000 rows is 2 % smaller and takes twice as long to make."""


def page(source: Source) -> str:
    """Return the page as HTML."""
    assets = [f"assets/{name}.js" for name in SCRIPTS]
    of_views = [f"views/{view.name}.js" for view in views.loaded()]
    scripts = list(map(_text, (*LIBRARIES, *assets, *of_views, "assets/app.js")))
    # Styles may be inline, because charts set them.
    policy = (
        f"default-src 'none'; script-src {' '.join(map(policy_hash, scripts))}; style-src 'unsafe-inline';"
        " img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return Template(_text("assets/page.html")).substitute(
        policy=policy,
        style=_text("assets/style.css"),
        data="\n".join(_elements(source)),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def packed(value: object) -> str:
    """Return a JSON value as base64 of gzip. The same value gives the same text.

    Raises ValueError for NaN and infinities.
    """
    text = json.dumps(
        private.cleaned(value), allow_nan=False, ensure_ascii=False, separators=(",", ":")
    )
    return base64.b64encode(gzip.compress(text.encode(errors="replace"), LEVEL, mtime=0)).decode()


def policy_hash(script: str) -> str:
    """Return the source expression that allows one inline script in a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _elements(source: Source) -> Iterator[str]:
    """Yield the elements with the data."""
    known = views.loaded()
    selected = {view.name: _selected(view, source) for view in known}
    tabs = [
        {
            "name": view.name,
            "title": view.title,
            "missing": view.missing,
            "has_data": selected[view.name] is not None,
        }
        for view in known
    ]
    yield _element("views", {"views": tabs, "block": rows.BLOCK})
    yield _element("rows", rows.table(source))
    for name, data in selected.items():
        yield _element(f"view-{name}", data)
    for number, block in enumerate(rows.details(source)):
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


def _text(name: str) -> str:
    """Return a file of the page. Raises ValueError if it would end its element."""
    text = (HERE / name).read_text(encoding="utf-8")
    if "</script" in text.lower() and not name.endswith(".html"):
        raise ValueError(f"{name}: contains </script, which would end its element")
    return text
