"""How fast each cell is, compared with eager and inductor: charts, means, and a table."""

from __future__ import annotations

from typing import Any

from scripts.features.report.web.source import Source, View
from scripts.records import wording
from scripts.timing import ratios

INVERSE_DF = tuple(place / 1000 for place in range(0, 501, 2))
"""Inverse degrees of freedom at which the page knows the quantile of the t distribution. There are at least
ratios.LEAST - 1 degrees of freedom."""


def select(source: Source) -> dict[str, Any]:
    """Return what the page needs to compute means with intervals over any selection of rows.

    `quantiles`: pairs (1 / degrees of freedom, quantile). `means`: those over all rows, as they are in
    latency.md; a test compares the page's own with them.
    """
    return {
        "quantiles": [
            [x, ratios.quantile(1 / x if x else 1e9, ratios.CONFIDENCE)] for x in INVERSE_DF
        ],
        "bases": list(wording.BASE_NAMES),
        "means": [
            [mean.column.name, mean.column.target, mean.test]
            + [wording.speedup(one, mean) for one in mean.over]
            for mean in source.table.means
        ],
    }


VIEW = View("latency", "Latency", select)
