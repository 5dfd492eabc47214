"""The feature `compare`: what differs between runs, toolchains and releases, and the history of all results."""

from __future__ import annotations

from scripts.matrix.feature import Feature, Verb

FEATURE = Feature(
    "compare",
    modules={
        "keep": "scripts.features.compare.history.store",
        "views": "scripts.features.compare.page_views",
    },
    verbs=(
        Verb(
            "compare",
            "scripts.features.compare.verbs.compare",
            "what differs between two runs or toolchains, by intervals",
        ),
        Verb(
            "history",
            "scripts.features.compare.verbs.history",
            "what changed in which run, from all results that were kept",
        ),
        Verb(
            "site",
            "scripts.features.compare.verbs.site",
            "the report page over all runs that were kept, of any number of machines",
        ),
        Verb(
            "bisect",
            "scripts.features.compare.verbs.bisect",
            "the release of IREE in which a cell changed",
        ),
    ),
)
