"""Write records as CSV and JSON lines, one at a time where there are many."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pandas as pd

from scripts.core import atomic, exits
from scripts.records import fields
from scripts.records.fields import Field
from scripts.supervise import outcome

CHUNK = 5000
"""Rows that are converted to CSV at a time."""
CHECKED = 50

Record = Mapping[str, Any]


def checked(
    found: Iterable[Record],
    schema: Mapping[str, Any],
    name: Callable[[Record], object],
    kind: Callable[[Record], Hashable] | None = None,
) -> Iterator[Record]:
    """Yield records that follow a schema.

    A record that violates it is a bug of this project, and ends the command with an error that
    names the record. If there are many, `kind` says which are alike: only the first CHECKED of a
    kind are checked, because that takes as long as making the record.
    """
    validator = jsonschema.Draft202012Validator(schema)
    seen: Counter[Hashable] = Counter()
    for one in found:
        alike = kind(one) if kind else None
        seen[alike] += 1
        for problem in validator.iter_errors(one) if not kind or seen[alike] <= CHECKED else ():
            where = ".".join(str(part) for part in problem.absolute_path)
            exits.fail(f"record {name(one)}: {where}: {problem.message}")
        yield one


def lines(found: Iterable[Record]) -> Iterator[str]:
    """Yield records as lines of JSON."""
    return (json.dumps(one, allow_nan=False) + "\n" for one in found)


def csv(found: Iterable[Record], table: Iterable[Field]) -> Iterator[str]:
    """Yield the rows as parts of a CSV file, the heading first.

    Numbers have seven significant digits: more than any measured number has.
    """
    table = list(table)
    types = fields.dtypes(table)
    rows = (fields.row(one, table) for one in found)
    is_first = True
    while (chunk := list(itertools.islice(rows, CHUNK))) or is_first:
        frame = pd.DataFrame(chunk, columns=list(types), dtype="object").astype(types)
        yield frame.to_csv(index=False, header=is_first, float_format="%.7g", lineterminator="\n")
        is_first = False


def write(
    found: Sequence[Record], table: Iterable[Field], page: str, jsonl: Path, md: Path, out: Path
) -> None:
    """Write records as JSONL, a page and a CSV. Raises OSError."""
    atomic.write_text(jsonl, "".join(lines(found)))
    atomic.write_text(md, page)
    atomic.write_text(out, "".join(csv(found, table)))


def condemn_damaged(found: Iterable[Record]) -> None:
    """Mark the stages whose files could not be read as damaged, so that the next run repeats them."""
    damaged = {
        one["outcome"]["log"]: one["outcome"]["detail"]
        for one in found
        if one["outcome"]["status"] == outcome.DAMAGED
    }
    for log, detail in damaged.items():
        outcome.condemn(Path(log).with_name(outcome.STATUS), detail)
