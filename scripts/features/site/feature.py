"""The feature `site`: all runs that were kept, of any number of machines, as static pages."""

from __future__ import annotations

from scripts.matrix.feature import Feature, Verb

FEATURE = Feature(
    "site",
    verbs=(
        Verb(
            "site",
            "scripts.features.site.verb",
            "static pages of all runs that were kept, for any web server or none",
        ),
    ),
)
