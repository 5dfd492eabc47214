"""The feature `report`: what is read after a run."""

from __future__ import annotations

from scripts.matrix.feature import Feature, Verb

FEATURE = Feature(
    "report",
    verbs=(
        Verb(
            "failed",
            "scripts.features.report.verbs.failed",
            "the stages that failed: reason, log, and a command that repeats each",
        ),
        Verb(
            "import",
            "scripts.features.report.verbs.import_record",
            "add a row that was measured on another machine",
        ),
        Verb(
            "merge", "scripts.features.report.verbs.merge", "the results of several folders as one"
        ),
        Verb(
            "export", "scripts.features.report.verbs.export", "the rows in formats of other tools"
        ),
        Verb(
            "report", "scripts.command.run", "results/report.html, the page with all rows", "report"
        ),
        Verb(
            "docs",
            "scripts.features.report.verbs.docs",
            "write the pages of docs/ that are made from declarations",
        ),
    ),
)
