"""Reads results.jsonl and checks every record. Errors name the file and the line."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from scripts.config.cell import Cell, Kind
from scripts.config.choices import TESTS
from scripts.core import checkout
from scripts.measure.timing.calls import Run
from scripts.measure.verify import verification
from scripts.results import columns
from scripts.results.columns import FIELDS, Field
from scripts.run import outputs
from scripts.supervise import outcome

NAME = r"\A(?!\.)[^/\\\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]{1,200}\Z"
"""Names of models, suites, frontends, targets, runtimes and devices, which are parts of paths and are printed."""
MOST_CHARS = 4_000_000
"""Of a record: more than a thousand times the usual ones."""


class BadRecords(Exception):
    """An error in the records: what is wrong, where, and what to do about it."""


def cell_of(record: Mapping[str, Any]) -> Cell:
    """The cell of a record."""
    experiment = record["experiment"]
    kind = Kind.IREE if experiment["runtime"] == "iree" else Kind.BASELINE
    # A baseline with the name of its runtime has no target.
    named = experiment.get("frontend"), experiment["target"] or experiment["runtime"], experiment.get("test")  # fmt: skip
    return _cell(kind, record["model"]["name"], *named)


def name_of(record: Mapping[str, Any]) -> Cell | str:
    """The cell of a record; of an operator problem its name, `aten.add.Tensor-0123456789ab/<frontend>/<target>`."""
    if "problem" not in record:
        return cell_of(record)
    experiment = record["experiment"]
    path = experiment["target"] or experiment["runtime"]
    path = f"{experiment['frontend']}/{path}" if experiment["runtime"] == "iree" else path
    return f"{record['problem']['name']}/{path}"


@functools.lru_cache(1 << 16)  # rows of many runs have the same cells
def _cell(kind: Kind, model: str, frontend: str | None, target: str, test: str | None) -> Cell:
    path = {"frontend": frontend, "target": target}
    if kind is Kind.BASELINE:
        path = {"baseline": target, "test": test}
    return Cell.of_kind(kind, model=model, **{k: v for k, v in path.items() if v is not None})


_Name = Annotated[str, msgspec.Meta(pattern=NAME)]
_NEEDED = {
    "model.name": _Name,
    "model.suite": _Name,
    "experiment.test": Literal[TESTS],
    "experiment.runtime": _Name,
    "experiment.frontend": _Name | None,
    "experiment.target": _Name | None,
    "experiment.dtype": str,
    "experiment.batch_size": int | None,
    "experiment.device": _Name,
    "outcome.status": Literal[outcome.STATUSES],
    "outcome.detail": str,
    "verification.code": str,
    "run": None,
    "latency.ms": None,
    "latency.values_ms": None,
    "runs[].total_s": None,
    "runs[].iterations": None,
}


def contradiction(record: Mapping[str, Any]) -> str:
    """How the values of a record contradict each other; "" if they do not."""
    ended, code = record["outcome"], record["verification"]["code"]
    is_ok = ended["status"] == outcome.OK
    if not is_ok and not all(ended[key] for key in ("reason", "detail", "log")):
        return f"{ended['status']} without reason, detail or log"
    if bool(record["latency"]) != is_ok or (is_ok and code != verification.PASS):
        has = "a" if record["latency"] else "no"
        return f"{ended['status']} with {has} latency and verification {code}"
    return ""


@dataclasses.dataclass(frozen=True, eq=False)
class Form:
    """The form of the records of a set. `csv`: the target that makes it. `fields`: every value of a record. `contradiction`:
    how values of a record contradict each other, or "". `needed`: what readers need of a record, which an older version or
    another tool may have written, with the types by its path; None: that of the field.
    """

    csv: str
    fields: Sequence[Field]
    contradiction: Callable[[Mapping[str, Any]], str] = contradiction
    needed: Mapping[str, Any] = dataclasses.field(default_factory=lambda: _NEEDED)

    @functools.cached_property
    def decoder(self) -> msgspec.json.Decoder:
        """Of a line that readers can use."""
        return msgspec.json.Decoder(columns.form(self.fields, needed=self.needed))

    @functools.cached_property
    def _problem(self) -> Callable[[Any], str]:
        return columns.checker(self.fields)

    def problem(self, record: Mapping[str, Any]) -> str:
        """How a record differs from the declaration of its fields, or contradicts itself; "" if it does not."""
        return self._problem(record) or self.contradiction(record)


MODELS = Form("results/latency.csv", FIELDS)


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """One line of results.jsonl. Two lines are two records, even if they are equal."""

    path: Path
    line: int
    data: dict
    form: Form = MODELS

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"

    @property
    def is_iree(self) -> bool:
        return self["runtime"] == "iree"

    @property
    def latency(self) -> dict | None:
        """The latency; None unless the verification passed."""
        return self.data["latency"]

    def __getitem__(self, key: str) -> Any:
        """The value of one of CELL_KEYS. If an older record lacks it, None; for `precision`, "none"."""
        experiment = self.data["experiment"]
        if key in ("model", "suite"):
            return self.data.get("model", {}).get("name" if key == "model" else "suite")
        if key == "cell":
            return str(name_of(self.data))
        if key == "precision":
            return experiment.get(key) or "none"
        return experiment.get(key)

    @property
    def parts(self) -> list[str]:
        """The parts of the cell's name after the model: frontend and target, or baseline and test."""
        return self["cell"].split("/")[1:]

    @property
    def failure(self) -> str:
        """ "<status>: <detail>" of a cell that was not measured."""
        result = self.data["outcome"]
        return f"{result['status']}: {result['detail'] or result.get('reason') or 'not measured'}"

    @property
    def runs(self) -> list[Run]:
        """The cold run, then a call for each of `latency.values_ms`, with what the runtime has counted in the warm run; [] for a
        cell that was not timed."""
        if self.latency is None:
            return []
        cold, *warm = (Run(**run) for run in self.data["runs"])
        call = warm[0] if warm else Run(0.0)
        values = self.latency["values_ms"]
        return [cold, *(dataclasses.replace(call, total_s=ms / 1e3) for ms in values)]


def read(path: Path, form: Form = MODELS) -> list[Record]:
    """Every record of a file.

    Raises BadRecords, naming file and line, if a line is not a record or the file is damaged.
    """
    if not path.is_file():
        raise BadRecords(
            f"{path}: no such file; run `{checkout.run_command(form.csv)}` first,"
            " or name another with --results"
        )
    if what := outputs.difference(path):
        raise BadRecords(
            f"{what}; `{checkout.run_command(form.csv)}` makes it again (a copy that was"
            " edited can be read from another folder: name it with --results)"
        )
    try:
        # Not splitlines(): a message may hold other line separators, which JSON does not escape.
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise BadRecords(f"{path}: not UTF-8 ({error}); is this a results.jsonl?") from error
    return [
        _parse(path, number, line, form)
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]


def check_line(line: bytes) -> None:
    """Raise msgspec.DecodeError if a line is not a record whose values have the types of their fields."""
    known: Any = MODELS.decoder.decode(line)
    if known.latency and not known.runs:
        raise msgspec.ValidationError("a latency without runs")


def check(records: Iterable[Record]) -> None:
    """Raise BadRecords, naming file and line, for the first record that does not follow the declaration of this version."""
    for record in records:
        if what := record.form.problem(record.data):
            message = textwrap.shorten(what, 300, placeholder=" …")
            raise BadRecords(
                f"{record.where}: {message}; expected a record of this version of the project"
            )


@contextlib.contextmanager
def explained(records: Iterable[Record]) -> Iterator[None]:
    """Raise BadRecords in place of the error that a value causes which a record lacks, or which has another form."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ArithmeticError):
        check(records)
        raise


def _parse(path: Path, number: int, line: str, form: Form) -> Record:
    if len(line) > MOST_CHARS:
        raise BadRecords(
            f"{path}:{number}: found a line of {len(line):,} characters, expected at most {MOST_CHARS:,}; take it out"
        )
    try:
        known: Any = form.decoder.decode(line)
        data = json.loads(line)
    except msgspec.ValidationError as error:
        raise BadRecords(
            f"{path}:{number}: {error}; expected a record of this project, as `{checkout.run_command(form.csv)}` writes it"
        ) from error
    except (ValueError, RecursionError) as error:
        raise BadRecords(
            f"{path}:{number}: not valid JSON ({error}); make the file again with"
            f" `{checkout.run_command(form.csv, options='--force')}`, or take the line out"
        ) from error
    if known.latency and not getattr(known, "runs", True):
        raise BadRecords(f"{path}:{number}: a latency without runs")
    return Record(path, number, data, form)
