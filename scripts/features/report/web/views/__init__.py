"""The views of the page, in the order of their tabs: those of the rows, then those of the other features.

To add one: write a function that selects its data, a JavaScript file in this folder that draws it, and an entry in VIEWS, here
or in a module of registry.VIEWS.
"""

from __future__ import annotations

import importlib

from scripts.core import checkout
from scripts.features import registry
from scripts.features.report.web.page_source import AGAIN, View
from scripts.features.report.web.views import of_rows

VIEWS = (
    View("overview", "Overview", of_rows.overview),
    View("latency", "Latency", of_rows.latency),
    View("threads", "Threads", of_rows.threads, f"All rows were measured on one number of threads. Measure on several, {AGAIN}" + checkout.run_command("results/report.html", "measure='{threads: [1, 2]}'")),
    View("failures", "Failures", of_rows.failures),
    View("memory", "Memory", of_rows.memory),
    View("training", "Training", of_rows.training, f"No training steps were measured. Measure them, {AGAIN}{checkout.run_command('results/latency.csv', 'tests=eval,train')}"),
)  # fmt: skip


def loaded() -> list[View]:
    """All views."""
    modules = map(importlib.import_module, registry.VIEWS)
    return [*VIEWS, *(view for module in modules for view in module.VIEWS)]
