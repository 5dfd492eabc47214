"""What ran where with which versions, and how each cell of the matrix ended."""

from __future__ import annotations

from typing import Any

from scripts.features.report.web.source import Record, Source, View
from scripts.records import wording
from scripts.records.results_table import column_of, in_order


def select(source: Source) -> dict[str, Any]:
    """Return the map of the matrix (rows, columns, and the index of a record for each place), what was
    measured with what, and what was not measured."""
    table = source.table
    of = table.provenance
    columns = in_order(table.rows)
    rows = {(row.model, row.test): place for place, row in enumerate(table.rows)}
    places = {column: place for place, column in enumerate(columns)}
    return {
        "title": wording.title(table),
        "when": of.when,
        "where": of.where,
        "with": of.with_what,
        "absent": [wording.absent(one) for one in table.absent],
        "models": of.models,
        "entries": of.entries,
        "columns": [[one.name, one.target] for one in columns],
        "rows": [[row.label, row.size] for row in table.rows],
        "cells": [
            [rows[_row(record)], places[column_of(record)], index]
            for index, record in enumerate(source.records)
        ],
    }


def _row(record: Record) -> tuple[str, str]:
    return record["model"]["name"], record["experiment"]["test"]


VIEW = View("overview", "Overview", select)
