"""A history as tables for SQL: `runs` has a line per entry, `rows` the rows of all entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from scripts.features.compare.history.store import Kept
from scripts.features.compare.history.words import versions
from scripts.records import fields
from scripts.records.columns import COLUMNS
from scripts.records.results_file import cell_of


class BadQuery(Exception):
    """A query that DuckDB refuses, with its message."""


def runs(kept: Sequence[Kept]) -> pd.DataFrame:
    """Return the entries: id, kind, time, commit, machine, versions, number of rows."""
    return pd.DataFrame(
        [
            {
                "run": one.entry.id,
                "kind": one.entry.kind,
                "at": pd.Timestamp(one.entry.at, unit="s"),
                "commit": one.entry.commit,
                "machine": one.entry.machine.name,
                "cpu": one.entry.machine.cpu,
                "versions": versions(one.entry),
                "rows": one.entry.rows,
                "ok": one.entry.statuses.get("ok", 0),
            }
            for one in kept
        ]
    )


def rows(kept: Sequence[Kept]) -> pd.DataFrame:
    """Return the rows of all entries: those of latency.csv, after the id of the entry and the name of the cell.

    Raises Damaged if an entry cannot be read.
    """
    found = [
        {"run": one.entry.id, "cell": str(cell_of(record))} | fields.row(record, COLUMNS)
        for one in kept
        for record in one.records()
    ]
    types = {"run": "object", "cell": "object"} | fields.dtypes(COLUMNS)
    return pd.DataFrame(found, columns=list(types), dtype="object").astype(types)


def query(kept: Sequence[Kept], sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns and lines of a query of the tables `runs` and `rows`. Raises BadQuery and Damaged."""
    import duckdb

    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("runs", runs(kept))
        connection.register("rows", rows(kept))
        try:
            answer = connection.sql(sql)
            return (list(answer.columns), answer.fetchall()) if answer else ([], [])
        except duckdb.Error as error:
            raise BadQuery(str(error)) from error
