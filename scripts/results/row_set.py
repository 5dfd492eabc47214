"""Sets of results. Each is a CSV, a page and JSON lines of the same records, written by
scripts/stages/aggregate_results.py and shown at the end of the run.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.config import feature
from scripts.config.rows import Matrix
from scripts.core import atomic, commands, exits, private
from scripts.results import at_hand, columns
from scripts.results.columns import Field, as_row, dtypes
from scripts.results.results_file import Form, name_of
from scripts.run import outputs
from scripts.supervise import outcome

if TYPE_CHECKING:
    from rich.console import RenderableType

CHUNK = 5000
"""Rows that are converted to CSV at a time."""
RESULTS, CPU = outputs.CSV.parent, outputs.CPU_FILES[0].parent
MATRIX = Path("logs/matrix.json")
OF_MODELS = "latency"
"""The set that is there without any feature."""

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Stored:
    """The records of a file. Each iteration reads them one at a time, because those of a large matrix take gigabytes."""

    jsonl: Path

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with self.jsonl.open(encoding="utf-8", newline="\n") as text:
            for number, line in enumerate(text, 1):
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise ValueError(f"{self.jsonl}:{number}: not valid JSON ({error})") from error
                if not isinstance(record, dict):
                    raise ValueError(f"{self.jsonl}:{number}: found {line:.40}, expected a record")
                yield record


@dataclass(frozen=True)
class Content:
    """What a run writes of a set. `page`: makes the page. `write_beside`: writes further files."""

    records: Iterable[Record]
    page: Callable[[Any], str]
    write_beside: Callable[[Any], None] = lambda records: None


@dataclass(frozen=True)
class RowSet:
    """The declaration of a set.

    `name`: results/<name>.csv and .md. `jsonl`: the file of the records. `about`: what the rows are, for docs/columns.md.
    `declared_in`: the file with the declaration of the fields. `form`: that of a record. `columns`: those of the CSV, in order; it has further ones if the run has
    further baselines (columns.with_bases). `described`: those in docs/columns.md.
    `content`: returns what a run writes, for its matrix and the folder of results; raises ValueError with a message.
    `screen`: what is printed at the end of a run. `is_large`: it has very many records. They are read again and not kept in
    memory, they are not kept in the history, and the CSV has no further columns.
    """

    name: str
    jsonl: Path
    about: str
    declared_in: str
    form: Form
    columns: Sequence[Field]
    described: Sequence[Field]
    content: Callable[[Matrix, Path], Content]
    screen: Callable[[Iterable[Record]], RenderableType]
    is_large: bool = False

    @property
    def csv(self) -> Path:
        return Path(self.form.csv)

    def files(self, folder: Path) -> tuple[Path, Path, Path]:
        """The CSV, the page and the records in a folder of results."""
        csv = folder / self.csv.name
        return csv, csv.with_suffix(".md"), folder / self.jsonl.relative_to(RESULTS)

    def checked(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield records. One that differs from its declaration is a bug of this project, and ends the command with its name."""
        for record in records:
            if what := self.form.problem(record):
                exits.fail(f"record {name_of(record)}: {what}")
            yield record

    def write(self, content: Content, folder: Path) -> Iterable[Record]:
        """Write the files into a folder of results, and return the records. They have nothing that identifies this user or machine (core/private.py). Raises OSError."""
        csv, page, jsonl = self.files(folder)
        checked = self.checked(map(private.cleaned, content.records))
        records = Stored(jsonl) if self.is_large else list(checked)
        atomic.write_parts(jsonl, lines(checked if self.is_large else records))
        table = self.columns if self.is_large else columns.with_bases(self.columns, records)
        atomic.write_parts(csv, to_csv(records, table))
        atomic.write_text(page, content.page(records))
        content.write_beside(records)
        return records


def _modules() -> dict[str, str]:
    """The modules that declare the sets of models' rows and of the features that are loaded, by the names of the sets."""
    features = feature.LOADED.values()
    return {OF_MODELS: "scripts.results.latency_page"} | {
        declared.csv: declared.row_set for declared in features if declared.csv
    }


def loaded() -> list[RowSet]:
    """The sets of models' rows and of the features that are loaded."""
    return [importlib.import_module(module).ROW_SET for module in _modules().values()]


def aggregate(description: str | None) -> tuple[Path, str] | None:
    """Run the command of the stage that writes a set, with the digests of its files. Returns what the history keeps: the file of
    records and the name of the set; None for records that it does not keep.

    If the disk refuses a file, no digests are recorded, so the next run writes all of them. Stages whose files could not be
    read are marked as damaged, so that the next run repeats them.
    """
    modules = _modules()
    parser = argparse.ArgumentParser(
        prog="python -m scripts.stages.aggregate_results", description=description
    )
    rows = "rows of results/<set>.csv (default: latency)"
    parser.add_argument("--set", default=OF_MODELS, choices=modules, help=rows)
    parser.add_argument("--matrix", default=RESULTS / MATRIX, type=Path, help=f"default: {RESULTS / MATRIX}")  # fmt: skip
    folder = f"folder of the files (default: {RESULTS}); {CPU}: those of the rows on the CPU"
    parser.add_argument("--out", default=RESULTS, type=Path, help=folder)
    parser.add_argument("--due", default="0", help="what asks for these files (run/outputs.py)")
    args = parser.parse_args()
    row_set: RowSet = importlib.import_module(modules[args.set]).ROW_SET
    files = row_set.files(args.out)
    try:
        matrix = Matrix.from_json(atomic.read_json(args.matrix))
        content = row_set.content(matrix, args.out)
    except ValueError as error:
        exits.fail(str(error))
    try:
        records = row_set.write(content, args.out)
        made_from = at_hand.made_from(matrix, args.out) if args.set == OF_MODELS else {}
        beside = [path for path in files if path.parent == args.out]
        outputs.record(args.due, beside, made_from)
        condemn_damaged(records)
    except OSError as error:
        exits.fail(f"{error}; the next run makes {files[0]} again")
    in_history = not row_set.is_large and args.out != CPU
    return (files[2], args.set) if in_history else None


def lines(records: Iterable[Record]) -> Iterator[str]:
    """Yield records as lines of JSON."""
    return (json.dumps(record, allow_nan=False) + "\n" for record in records)


def to_csv(records: Iterable[Record], table: Iterable[Field]) -> Iterator[str]:
    """Yield the rows as parts of a CSV file, the heading first.

    Numbers have seven significant digits: more than any measured number has.
    """
    import pandas as pd  # 0.2 s, for which the end of a run need not wait

    table = list(table)
    types = dtypes(table)
    rows = (
        {name: commands.csv_cell(value) for name, value in as_row(record, table).items()}
        for record in records
    )
    is_first = True
    while (chunk := list(itertools.islice(rows, CHUNK))) or is_first:
        frame = pd.DataFrame(chunk, columns=list(types), dtype="object").astype(types)
        yield frame.to_csv(index=False, header=is_first, float_format="%.7g", lineterminator="\n")
        is_first = False


def condemn_damaged(records: Iterable[Record]) -> None:
    """Mark the stages whose files could not be read as damaged."""
    damaged = {
        record["outcome"]["log"]: record["outcome"]["detail"]
        for record in records
        if record["outcome"]["status"] == outcome.DAMAGED
    }
    for log, detail in damaged.items():
        outcome.condemn(Path(log).with_name(outcome.STATUS), detail)
