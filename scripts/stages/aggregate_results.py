"""Aggregate the results of all cells: results/latency.csv, latency.md and results.jsonl."""

from __future__ import annotations

from scripts.core import commands, exits
from scripts.features import registry
from scripts.records import aggregates, imported, latency_page, record
from scripts.records.columns import COLUMNS, FIELDS
from scripts.records.results_table import Table


def main() -> None:
    registry.load()
    args = aggregates.parser("aggregate_results", __doc__).parse_args()
    try:
        made = record.records(aggregates.matrix(args), further=imported.rows())
    except ValueError as error:
        exits.fail(str(error))
    found = aggregates.checked(made, FIELDS)
    aggregates.publish(args, "latency", found, COLUMNS, latency_page.page(Table.of(found)))


if __name__ == "__main__":
    commands.run(main)
