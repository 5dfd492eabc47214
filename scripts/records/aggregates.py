"""What the aggregations have in common: their options, and how they write their files."""

from __future__ import annotations

import argparse
import contextlib
import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.core import atomic, exits
from scripts.matrix import feature
from scripts.matrix.matrix import Matrix
from scripts.records import fields, writing
from scripts.records.fields import Field
from scripts.records.results_file import cell_of
from scripts.run import outputs


def parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of every aggregation. `name`: of the script."""
    made = argparse.ArgumentParser(prog=f"python -m scripts.stages.{name}", description=description)
    made.add_argument("--matrix", required=True, type=Path, help="results/logs/matrix.json")
    made.add_argument("--out-csv", required=True, type=Path)
    made.add_argument("--out-jsonl", required=True, type=Path)
    made.add_argument("--out-md", required=True, type=Path)
    made.add_argument("--due", default="0", help="what asks for these files (run/outputs.py)")
    return made


def matrix(args: argparse.Namespace) -> Matrix:
    """Return the matrix of the run."""
    return Matrix.from_json(atomic.read_json(args.matrix))


def checked(made: Iterable[Mapping[str, Any]], columns: Iterable[Field]) -> list[Mapping[str, Any]]:
    """Return records, which follow the schema of their fields. A record that does not ends the command, with its name."""
    return list(writing.checked(made, fields.schema(columns), cell_of))


@contextlib.contextmanager
def files(csv: Path) -> Iterator[None]:
    """Write files. Exits if the disk refuses one; no digests are recorded then, so the next run writes all of them."""
    try:
        yield
    except OSError as error:
        exits.fail(f"{error}; the next run makes {csv} again")


def publish(
    args: argparse.Namespace,
    kind: str,
    found: Sequence[Mapping[str, Any]],
    columns: Iterable[Field],
    page: str,
) -> None:
    """Write records as JSONL, CSV and a page, with their digests, and keep them in the history as `kind`.

    Stages whose files could not be read are marked as damaged, so that the next run repeats them.
    """
    with files(args.out_csv):
        writing.write(found, columns, page, args.out_jsonl, args.out_md, args.out_csv)
        outputs.record(args.due, [args.out_csv, args.out_md, args.out_jsonl])
        writing.condemn_damaged(found)
    for declared in feature.LOADED.values():
        if declared.keep:
            importlib.import_module(declared.keep).keep(args.out_jsonl, kind)
