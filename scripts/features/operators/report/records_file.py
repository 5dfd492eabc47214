"""Read results/operators/operators.jsonl."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.records.results_file import BadRecords
from scripts.records.results_table import Column

JSONL = Path("results/operators/operators.jsonl")
COMMAND = "snakemake --cores <n> results/operators.csv"


@dataclass(frozen=True, eq=False)
class OperatorRecord:
    """One line of the file, with the keys by which `vmfbench export` selects."""

    data: Mapping[str, Any]

    def __getitem__(self, key: str) -> Any:
        """The value of a key of the section `experiment`, or `cell`: the name of the row."""
        return name_of(self.data) if key == "cell" else self.data["experiment"].get(key)


def read(path: Path) -> list[OperatorRecord]:
    """Return all records of a file. Raises BadRecords, naming file and line, if it is not one."""
    if not path.is_file():
        raise BadRecords(f"{path}: no such file; run `{COMMAND}`, or name another with --results")
    records = []
    with path.open(encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            try:
                records.append(OperatorRecord(json.loads(line)))
                name_of(records[-1].data)
            except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
                raise BadRecords(
                    f"{path}:{number}: not the record of an operator problem ({error!r});"
                    f" expected the operators.jsonl of `{COMMAND}`"
                ) from error
    return records


def column(record: Mapping[str, Any]) -> Column:
    """Return the lowering path and target of a record, or its baseline."""
    experiment = record["experiment"]
    if experiment["runtime"] == "iree":
        return Column(experiment["frontend"], experiment["target"])
    return Column(experiment["target"] or experiment["runtime"])


def name_of(record: Mapping[str, Any]) -> str:
    """Return the name of a row: `aten.add.Tensor-0123456789ab/<frontend>/<target>`."""
    return f"{record['problem']['name']}/{column(record).label}"
