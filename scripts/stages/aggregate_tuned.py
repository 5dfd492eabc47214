"""Aggregate tuned models: results/tuned.csv, tuned.md, tuned.jsonl, and the results that `tuned: auto` uses."""

from __future__ import annotations

from pathlib import Path

import msgspec
import yaml

from scripts.core import atomic, commands, exits
from scripts.features import registry
from scripts.features.variants import kept_results, tuned_matrix
from scripts.features.variants import tuned_page as page
from scripts.features.variants import tuned_rows as rows
from scripts.features.variants.tuned_columns import COLUMNS, FIELDS
from scripts.records import aggregates

HEAD = "# Made by `snakemake results/tuned.csv` (docs/tuning.md); used by targets with `tuned: auto`.\n"


def main() -> None:
    registry.load()
    parser = aggregates.parser("aggregate_tuned", __doc__)
    parser.add_argument("--out-results", required=True, type=Path, help="folder of the results")
    args = parser.parse_args()
    matrix = aggregates.matrix(args)
    if not tuned_matrix.part(matrix).targets:
        exits.fail("the configuration selects no target to tune for; set tune.targets")
    try:
        made, reports = rows.records(matrix)
    except ValueError as error:
        exits.fail(str(error))
    found = aggregates.checked(made, FIELDS)
    with aggregates.files(args.out_csv):
        for result in rows.results(found):
            shown = yaml.safe_dump(msgspec.to_builtins(result), sort_keys=False, width=100)
            path = kept_results.path_of(result.model, result.target, args.out_results)
            atomic.write_text(path, HEAD + shown)
            report = reports.get((result.model, result.target))
            if chosen := report and report.of(report.tuned):
                _write_spec(result, chosen.spec, args.out_results)
    aggregates.publish(args, "tuned", found, COLUMNS, page.page(found, reports))


def _write_spec(result: kept_results.Result, text: str, folder: Path) -> None:
    """Write the tuning spec of a result. Those of earlier results stay, since rows and recorded commands name them."""
    if text:
        atomic.write_text(kept_results.spec_path(result.model, result.target, text, folder), text)


if __name__ == "__main__":
    commands.run(main)
