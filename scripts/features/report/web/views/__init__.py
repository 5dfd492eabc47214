"""The views of the page, in the order of their tabs.

To add one: write a module with a `VIEW` and a JavaScript file with the same name beside it, and add the
module here.
"""

from __future__ import annotations

from scripts.features.report.web.source import View
from scripts.features.report.web.views import (
    comparison,
    failures,
    history,
    kernels,
    latency,
    memory,
    operators,
    overview,
    threads,
    training,
    why,
)

VIEWS: tuple[View, ...] = tuple(
    module.VIEW
    for module in (
        *(overview, latency, threads, failures, why, memory),
        *(history, comparison, training, operators, kernels),
    )
)
