"""Sets of results. Each is a CSV, a page and JSON lines of the same records, written by
scripts/stages/aggregate_results.py and shown at the end of the run.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema

from scripts.core import atomic, commands, exits, private
from scripts.matrix import feature
from scripts.matrix.matrix import Matrix
from scripts.records import at_hand, columns, fields
from scripts.records.fields import Field
from scripts.records.results_file import cell_of
from scripts.run import outputs
from scripts.supervise import outcome

if TYPE_CHECKING:
    from rich.console import RenderableType

CHUNK = 5000
"""Rows that are converted to CSV at a time."""
CHECKED = 50
"""Records of a form that are checked, of a set with very many."""
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
    `declared_in`: the file with the declaration of the fields. `fields`: every value of a record, with the rules about
    several fields in `<rules>.schema.json`. `columns`: those of the CSV, in order; it has further ones if the run has further
    baselines (columns.with_bases). `described`: those in docs/columns.md.
    `content`: returns what a run writes, for its matrix and the options of the stage; raises ValueError with a message.
    `add_options`: adds options of its own to the stage. `screen`: what is printed at the end of a run. `name_of`: the name
    of a record in messages. `alike`: of a set with very many records, what those of the same form have in common. Only some
    of each form are checked, because that takes as long as making the record; they are read again and not kept in memory;
    they are not kept in the history; and the CSV has no further columns.
    """

    name: str
    jsonl: Path
    about: str
    declared_in: str
    fields: Sequence[Field]
    columns: Sequence[Field]
    described: Sequence[Field]
    content: Callable[[Matrix, argparse.Namespace], Content]
    screen: Callable[[Iterable[Record]], RenderableType]
    add_options: Callable[[argparse.ArgumentParser], object] = lambda parser: None
    rules: str = "record"
    name_of: Callable[[Record], object] = cell_of
    alike: Callable[[Record], Hashable] | None = None

    @property
    def csv(self) -> Path:
        return outputs.files_of(self.name)[0]

    def checked(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield records. One that violates the schema is a bug of this project, and ends the command with its name."""
        validator = jsonschema.Draft202012Validator(fields.schema(self.fields, self.rules))
        seen: Counter[Hashable] = Counter()
        for record in records:
            form = self.alike(record) if self.alike else None
            seen[form] += 1
            is_checked = not self.alike or seen[form] <= CHECKED
            for problem in validator.iter_errors(record) if is_checked else ():
                where = ".".join(map(str, problem.absolute_path))
                exits.fail(f"record {self.name_of(record)}: {where}: {problem.message}")
            yield record

    def write(self, content: Content, jsonl: Path, csv: Path, md: Path) -> Iterable[Record]:
        """Write the files, and return the records. They have nothing that identifies this user or machine (core/private.py). Raises OSError."""
        checked = self.checked(map(private.cleaned, content.records))
        records = Stored(jsonl) if self.alike else list(checked)
        atomic.write_parts(jsonl, lines(checked if self.alike else records))
        table = self.columns if self.alike else columns.with_bases(self.columns, records)
        atomic.write_parts(csv, to_csv(records, table))
        atomic.write_text(md, content.page(records))
        content.write_beside(records)
        return records


def _modules() -> dict[str, str]:
    """The modules that declare the sets of models' rows and of the features that are loaded, by the names of the sets."""
    features = feature.LOADED.values()
    return {OF_MODELS: "scripts.records.latency_page"} | {
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
    chosen = argparse.ArgumentParser(add_help=False)
    chosen.add_argument(
        "--set",
        default=OF_MODELS,
        choices=modules,
        help="rows of results/<set>.csv (default: latency)",
    )
    name = chosen.parse_known_args()[0].set
    row_set: RowSet = importlib.import_module(modules[name]).ROW_SET
    parser = argparse.ArgumentParser(
        prog="python -m scripts.stages.aggregate_results", description=description, parents=[chosen]
    )
    parser.add_argument("--matrix", required=True, type=Path, help="results/logs/matrix.json")
    parser.add_argument("--out-csv", required=True, type=Path)
    parser.add_argument("--out-jsonl", required=True, type=Path)
    parser.add_argument("--out-md", required=True, type=Path)
    parser.add_argument("--due", default="0", help="what asks for these files (run/outputs.py)")
    row_set.add_options(parser)
    args = parser.parse_args()
    try:
        matrix = Matrix.from_json(atomic.read_json(args.matrix))
        content = row_set.content(matrix, args)
    except ValueError as error:
        exits.fail(str(error))
    try:
        records = row_set.write(content, args.out_jsonl, args.out_csv, args.out_md)
        written = (args.out_csv, args.out_md, args.out_jsonl)
        of_models = row_set.name == OF_MODELS
        files = at_hand.made_from(matrix, args.out_csv.parent) if of_models else {}
        beside = [path for path in written if path.parent == args.out_csv.parent]
        outputs.record(args.due, beside, files)
        condemn_damaged(records)
    except OSError as error:
        exits.fail(f"{error}; the next run makes {args.out_csv} again")
    in_history = not row_set.alike and args.out_csv not in outputs.CPU_FILES
    return (args.out_jsonl, row_set.name) if in_history else None


def lines(records: Iterable[Record]) -> Iterator[str]:
    """Yield records as lines of JSON."""
    return (json.dumps(record, allow_nan=False) + "\n" for record in records)


def to_csv(records: Iterable[Record], table: Iterable[Field]) -> Iterator[str]:
    """Yield the rows as parts of a CSV file, the heading first.

    Numbers have seven significant digits: more than any measured number has.
    """
    import pandas as pd  # 0.2 s, for which the end of a run need not wait

    table = list(table)
    types = fields.dtypes(table)
    rows = (
        {name: commands.csv_cell(value) for name, value in fields.row(record, table).items()}
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
