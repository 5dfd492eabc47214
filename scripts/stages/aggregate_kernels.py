"""Aggregate the results of all kernels: results/kernels.csv, kernels.md, kernels.jsonl and the plots."""

from __future__ import annotations

from pathlib import Path

from scripts.core import commands, exits
from scripts.features import registry
from scripts.features.kernels import kernel_plots, page, rows
from scripts.features.kernels.columns import COLUMNS, FIELDS
from scripts.records import aggregates
from scripts.records import limit_shares as limits


def main() -> None:
    registry.load()
    parser = aggregates.parser("aggregate_kernels", __doc__)
    parser.add_argument("--out-plots", required=True, type=Path, help="folder of the plots")
    args = parser.parse_args()
    matrix = aggregates.matrix(args).parts.get("kernels")
    if matrix is None or not matrix.models:
        exits.fail(
            "the configuration selects no kernel; set kernels.select, or raise kernels.max_bytes"
        )
    try:
        measured = limits.read(matrix.devices())
        made = rows.records(matrix, measured)
    except (rows.WrongTraffic, ValueError) as error:
        exits.fail(str(error))
    found = aggregates.checked(made, FIELDS)
    with aggregates.files(args.out_csv):
        for name in dict.fromkeys(one["kernel"]["name"] for one in found):
            of_kernel = [one for one in found if one["kernel"]["name"] == name]
            kernel_plots.write(name, of_kernel, args.out_plots)
    aggregates.publish(args, "kernels", found, COLUMNS, page.page(found, measured))


if __name__ == "__main__":
    commands.run(main)
