"""Write the pages of docs/ that are made from declarations: columns.md, and tables of flag sets and remedies."""

from __future__ import annotations

import argparse

from scripts.core import atomic, checkout, exits
from scripts.features.report import columns_page
from scripts.matrix import feature
from scripts.records import row_set


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    docs = checkout.ROOT / "docs"
    atomic.write_text(docs / "columns.md", columns_page.page(row_set.loaded()))
    atomic.write_text(docs / "columns.csv", columns_page.fields_csv(row_set.loaded()))
    for part in (part for module in feature.modules("docs") for part in module.PARTS):
        page = docs / part.page
        try:
            atomic.write_text(page, part.within(page.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            exits.fail(f"{page}: {error}")
