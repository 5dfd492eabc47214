"""The views of the page, in the order of their tabs: those of the rows, then those of the other features.

To add one: write a function that returns its sections (scripts/records/page_sections.py), and an entry in VIEWS, here or in a module of
registry.VIEWS.
"""

from __future__ import annotations

import importlib

from scripts.core import checkout
from scripts.features import registry
from scripts.features.report.web import row_views
from scripts.features.report.web.page_source import AGAIN, View

VIEWS = (
    View("overview", "Overview", row_views.overview, script="overview"),
    View("latency", "Latency", row_views.latency, script="latency"),
    View("threads", "Threads", row_views.threads, f"All rows were measured on one number of threads. Measure on several, {AGAIN}" + checkout.run_command("results/report.html", "measure='{threads: [1, 2]}'")),
    View("failures", "Failures", row_views.failures),
    View("memory", "Memory", row_views.memory),
    View("training", "Training", row_views.training, f"No training steps were measured. Measure them, {AGAIN}{checkout.run_command('results/latency.csv', 'tests=eval,train')}"),
)  # fmt: skip


def loaded() -> list[View]:
    """All views."""
    modules = map(importlib.import_module, registry.VIEWS)
    return [*VIEWS, *(view for module in modules for view in module.VIEWS)]
