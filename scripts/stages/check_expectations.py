"""Compare the rows of the last run with `expect:`, of the configuration or of a file; exit with 1 if any differs. With --files, compare
the files of the run with the checksums of what was written.

A status, stage or reason that is expected must be the one that was found, so an expected failure that works now differs too. A verdict
that is not decided never does.
"""

from __future__ import annotations

import argparse
import difflib
import io
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from scripts.config import cell
from scripts.config.stages import OUTCOMES
from scripts.core import atomic, commands, exits
from scripts.measure.timing.ratios import UNDECIDED
from scripts.results import at_hand, ci_formats, columns, remedied
from scripts.results.ci_formats import BAD_INPUT, Case
from scripts.results.columns import COLUMNS
from scripts.results.page_sections import Section, as_markdown
from scripts.results.results_file import BadRecords, cell_of, read
from scripts.run import outputs
from scripts.supervise import outcome
from scripts.tools import registry

AS_ASKED, VERDICT, AT_MOST, AT_LEAST = "as_asked", "verdict", "at_most", "at_least"
"""Keys of an expectation beside those of an outcome: whether a cell compiled without a remedy, the verdict, and the largest and least
values of columns."""
_LIMITS = {AT_MOST: "of at most", AT_LEAST: "of at least"}
HEADROOM = 1.5
"""What `updated` allows a value that varies from run to run, as a multiple of what was found."""
_WORDS = {(AS_ASKED, True): "as asked", (AS_ASKED, False): "by remedy"}


@dataclass(frozen=True)
class Violation:
    """A difference of a cell from what is expected. `key`: "" for its outcome, VERDICT, or a column. `detail`: the line of the log."""

    cell: str
    key: str
    expected: str
    found: str
    detail: str = ""

    @property
    def line(self) -> str:
        """The violation in one line."""
        said = f"expected {self.key} {self.expected}, found {self.found}".replace("  ", " ")
        detail = " ".join(self.detail.split())
        return f"{said}: {detail}" if detail else said


@dataclass(frozen=True)
class Checked:
    """A cell that has an expectation. `pattern`: the one that counts. `wanted`: its value as a mapping. `undecided`: whether its timing
    does not decide the verdict that is expected, which is no violation."""

    cell: str
    pattern: str
    wanted: Mapping[str, Any]
    violations: tuple[Violation, ...]
    undecided: bool
    row: Mapping[str, Any]


def check(records: Iterable[Mapping[str, Any]], expect: dict[str, Any]) -> list[Checked]:
    """Compare records with the last pattern of `expect` that matches each of them; those without one are left out."""
    checked = []
    for record in records:
        row = cell_of(record)
        # An expectation may leave out the number of threads.
        name, shared = str(row), str(row.without("threads"))
        matching = (p for p in reversed(expect) if fnmatchcase(name, p) or fnmatchcase(shared, p))
        pattern = next(matching, None)
        if pattern is not None:
            value = expect[pattern]
            wanted = value if isinstance(value, Mapping) else {"status": value}
            checked.append(_checked(name, pattern, wanted, record))
    return checked


def _checked(
    name: str, pattern: str, wanted: Mapping[str, Any], record: Mapping[str, Any]
) -> Checked:
    row = columns.as_row(record, COLUMNS) | record["outcome"]
    row[AS_ASKED] = not remedied.is_remedied(record)
    violations = []
    is_ok = row["status"] == outcome.OK
    allowed = {
        key: _listed(value) for key, value in wanted.items() if key not in (VERDICT, *_LIMITS)
    }
    if any(row[key] not in values for key, values in allowed.items()):
        shown = ["status"]
        if not is_ok:
            shown += [key for key in ("stage", "reason") if row[key]]
        here = {key: row[key] for key in [*shown, *allowed]}
        expected = " ".join(_said(key, values) for key, values in allowed.items())
        actual = " ".join(_said(key, [value]) for key, value in here.items())
        causes = [row["detail"]] if row["detail"] else []
        if first := remedied.first_error(record):
            reason = remedied.first_error(record, "reason")
            causes.append(f"as asked, compile {reason}: {first}")
        violations.append(Violation(name, "", expected, actual, "; ".join(causes)))
    verdict, verdicts = row[VERDICT], _listed(wanted.get(VERDICT, []))
    if verdicts and is_ok and verdict not in (*verdicts, UNDECIDED):
        actual = verdict or "none: it was not compared with a baseline"
        violations.append(Violation(name, VERDICT, _said(VERDICT, verdicts), actual))
    for key, said in _LIMITS.items():
        for column, limit in wanted.get(key, {}).items():
            value = row[column]
            if value is None and is_ok:
                violations.append(Violation(name, column, f"{said} {limit:g}", "none"))
            elif value is not None and (value > limit if key == AT_MOST else value < limit):
                violations.append(Violation(name, column, f"{said} {limit:.15g}", f"{value:.15g}"))
    undecided = bool(verdicts) and verdict == UNDECIDED and UNDECIDED not in verdicts
    return Checked(name, pattern, wanted, tuple(violations), undecided, row)


def _listed(value: Any) -> list[Any]:
    return list(value) if _is_list(value) else [value]


def _said(key: str, values: Sequence[Any]) -> str:
    return " or ".join(_WORDS.get((key, value), str(value)) for value in values)


def entry(record: Mapping[str, Any]) -> str | dict[str, Any]:
    """The expectation that a record meets."""
    ended = record["outcome"]
    if ended["status"] == outcome.OK:
        return outcome.OK
    return {key: ended[key] for key in ("status", "stage", "reason")}


def _as_found(checked: Checked) -> Any:
    """The expectation of a cell, changed to allow what was found where it is violated. A list gets what was found too; one value is
    replaced by it. What is not violated stays."""
    row, wanted = checked.row, dict(checked.wanted)
    keys = {violation.key for violation in checked.violations}
    keys |= {key for key in _OF_OUTCOME if key in wanted and row[key] not in _listed(wanted[key])}
    for key in (*_OF_OUTCOME, VERDICT):
        if key in keys and key in wanted:
            wanted[key] = [*wanted[key], row[key]] if _is_list(wanted[key]) else row[key]
    if "status" in keys and not _is_list(checked.wanted["status"]):
        # Another outcome, which is then told as exactly as `entry` does.
        place = {"stage": row["stage"], "reason": row["reason"]}
        kept = {key: value for key, value in wanted.items() if key not in ("status", *place)}
        wanted = {"status": row["status"]} | (place if row["status"] != outcome.OK else {}) | kept
    for name in _LIMITS.keys() & wanted.keys():
        wanted[name] = {
            key: _limit(row[key], key) if key in keys else limit
            for key, limit in wanted[name].items()
        }
    return wanted if len(wanted) > 1 else wanted["status"]


_OF_OUTCOME = ("status", "stage", "reason", AS_ASKED)
"""Keys of an expectation of an outcome."""


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _limit(value: float, column: str) -> float:
    """What `updated` allows a column whose value was larger than expected."""
    varies = next(field.varies for field in COLUMNS if field.column == column)
    return math.ceil(value * HEADROOM * 100) / 100 if varies else value


def updated(text: str, records: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Return a YAML file whose `expect:` says what was found, and the difference as a unified diff.

    Comments, order and quotes stay. The entry of a cell changes in place; a cell that matches a glob gets
    a new entry at the end. Raises BadRecords.
    """
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, 10_000
    document = yaml.load(text)
    for mapping, sequence, offset in ((2, 4, 2), (2, 2, 0), (4, 4, 2), (4, 6, 4)):
        # The file's own way to indent, if it has one throughout.
        yaml.indent(mapping=mapping, sequence=sequence, offset=offset)
        out = io.StringIO()
        yaml.dump(document, out)
        if out.getvalue() == text:
            break
    expect = document["expect"]
    for checked in check(records, expect):
        if lacks := [
            each.line for each in checked.violations if each.key and checked.row[each.key] is None
        ]:
            raise BadRecords(f"{checked.cell}: {lacks[0]}, so there is nothing to write")
        new = _as_found(checked)
        if checked.pattern == checked.cell:
            _replace(expect, checked.cell, new)
        elif checked.violations:
            # A copy, or YAML would write an alias of the glob's value.
            expect[checked.cell] = json.loads(json.dumps(new))
    out = io.StringIO()
    yaml.dump(document, out)
    old, new = (part.splitlines(keepends=True) for part in (text, out.getvalue()))
    return out.getvalue(), "".join(difflib.unified_diff(old, new, "before", "after"))


def _replace(mapping: Any, key: str, new: Any) -> None:
    """Replace a value of a mapping. Inside a mapping, only values that differ are replaced, so that comments stay."""
    old = mapping[key]
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [name for name in old if name not in new]:
            del mapping[key][name]
        for name, value in new.items():
            if name in old:
                _replace(old, name, value)
            else:
                old[name] = value
    elif isinstance(old, list) and isinstance(new, list):
        old.extend(new[len(old) :])
    elif old != new:
        mapping[key] = new


def parsed(data: bytes, name: str) -> dict[str, Any]:
    """The entries of `expect:` of a YAML file. Raises BadRecords, which says what is wrong."""
    # The environment of the rule `check` has no pydantic.
    from scripts.config import reading, sections

    try:
        document = reading.parsed(data, name)
        if not isinstance(document, dict) or not isinstance(document.get("expect"), dict):
            raise BadRecords(f"{name}: found no mapping `expect:` (docs/configuration.md#expect)")
        return sections.check({"expect": document["expect"]}, sections.EXPECTATIONS)["expect"]
    except reading.ConfigError as error:
        said = str(error)
        raise BadRecords(said if said.startswith(name) else f"{name}: {said}") from error


def main() -> int:
    registry.load()
    args = _arguments()
    if args.files:
        changed = [*changed_files(args.results)]
        print("\n".join(changed) or f"{args.results}: all files are those that were written")
        return 1 if changed else 0
    try:
        rows = args.results / "results.jsonl" if args.results.is_dir() else args.results
        records = [record.data for record in read(rows)]
        chosen = [record for record in records if cell.selects(args.cell, str(cell_of(record)))]
        if records and not chosen:
            raise BadRecords(f"no cell of {len(records)} matches --cell {' '.join(args.cell)}")
        if args.results.is_dir():
            at_hand.check(args.results, chosen)
        if args.as_config:
            print("expect:")
            for record in chosen:
                print(f"  {json.dumps(str(cell_of(record)))}: {json.dumps(entry(record))}")
            return 0
        if args.file:
            data = args.file.read_bytes()
            expect = parsed(data, str(args.file))
        else:
            expect = atomic.read_json(rows.parent / "logs" / "matrix.json")["expect"]
        checked = check(chosen, expect)
        if not checked:
            raise BadRecords(
                f"none of {len(chosen)} cells has an expectation, so nothing is checked"
            )
        if args.update:
            new, difference = updated(data.decode(), chosen)
            atomic.write_text(args.file, new)
            print(difference or f"{args.file}: nothing to change", end="" if difference else "\n")
            return 0
    except (BadRecords, OSError, ValueError) as error:
        exits.fail(str(error), BAD_INPUT)
    violations = [violation for cell_check in checked for violation in cell_check.violations]
    whole = _markdown(violations, checked, len(chosen))
    formats = {
        "text": lambda: _text(violations, checked, len(chosen)),
        "markdown": lambda: ci_formats.cut(whole, ci_formats.SUMMARY_BYTES),
        "comment": lambda: ci_formats.cut(whole, ci_formats.COMMENT_BYTES),
        "github": lambda: "".join(
            f"{ci_formats.annotation('error', violation.line, violation.cell)}\n"
            for violation in violations
        ),
        "junit": lambda: ci_formats.junit(
            "expectations", _summary(violations, checked, len(chosen)), [*map(_case, checked)]
        ),
    }
    ci_formats.write(args.format, formats)
    return 1 if violations else 0


def changed_files(results: Path) -> Iterator[str]:
    """What differs of the files of stages, of operator problems and of the aggregation from their sizes and checksums. The
    stages are marked, so that the next run repeats them."""
    for path in sorted(results.rglob(outcome.USAGE)):
        if any((folder / outcome.USAGE).exists() for folder in path.parent.parents):
            continue  # a try of a remedy or of tuning, whose files were moved if it succeeded
        for what in _changed_files_of_stage(path):
            outcome.condemn(path.with_name(outcome.STATUS), what)
            yield what
    for file in itertools.chain(outputs.FILES, outputs.CPU_FILES, *outputs.of_features()):
        if what := outputs.difference(
            results / file.relative_to("results"), atomic.difference_from
        ):
            yield f"{what}; delete it, and the next run makes it again"


def _changed_files_of_stage(usage: Path) -> Iterator[str]:
    try:
        known = outcome.read_usage(usage)
        digests = {usage.with_name(name): digest for name, digest in known.artifacts.items()} if known else {}  # fmt: skip
        problems = usage.with_name(OUTCOMES)
        for name, line in (
            outcome.read_problem_ends(problems) if problems in digests else {}
        ).items():
            for file, values in (line.result.get("files") or {}).items():
                digests[usage.with_name(name) / file] = atomic.Digest(**values)
    except (OSError, ValueError) as error:
        yield str(error)
        return
    for path, digest in digests.items():
        if what := atomic.difference_from(path, digest):
            yield f"{path} is damaged: {what}; the next run makes it again"


FORMATS = ("text", "markdown", "comment", "github", "junit")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    file = "a YAML file with `expect:`; default: the configuration of the last run"
    parser.add_argument("file", nargs="?", type=Path, help=file)
    changes = "write what was found into the file, and print the difference"
    parser.add_argument("--update", action="store_true", help=changes)
    ci_formats.add_option(parser, FORMATS)
    entries = "print `expect:` entries for the rows as they are"
    parser.add_argument("--as-config", action="store_true", help=entries)
    where = "folder, or a file of rows; default: results"
    parser.add_argument("--results", type=Path, default=Path("results"), help=where)
    written = "compare the files of stages with the checksums of what was written, in place of rows"
    parser.add_argument("--files", action="store_true", help=written)
    commands.add_cell_option(parser)
    args = parser.parse_args()
    if args.update and not args.file:
        parser.error(
            "--update: name the file that is to be changed: vmfbench check gate.yaml --update"
        )
    return args


def _summary(violations: Sequence[Violation], checked: Sequence[Checked], rows: int) -> str:
    undecided = sum(cell_check.undecided for cell_check in checked)
    said = f"{len(checked)} of {rows} cells have an expectation: {len(violations)} violations"
    return f"{said}, {undecided} verdicts undecided" if undecided else said


def _text(violations: Sequence[Violation], checked: Sequence[Checked], rows: int) -> str:
    lines = [f"{violation.cell}: {violation.line}" for violation in violations]
    return "".join(f"{line}\n" for line in (*lines, _summary(violations, checked, rows)))


def _markdown(violations: Sequence[Violation], checked: Sequence[Checked], rows: int) -> str:
    lines = [
        (each.cell, f"{each.key} {each.expected}", each.found, each.detail) for each in violations
    ]
    head = ("cell", "expected", "found", "detail")
    summary = [_summary(violations, checked, rows)]
    return as_markdown([Section("Expectations", head, lines, lines=summary)], level=3)


def _case(checked: Checked) -> Case:
    failure = "\n".join(violation.line for violation in checked.violations)
    return Case(checked.cell, failure, output="undecided" if checked.undecided else "")


if __name__ == "__main__":
    commands.run(main)
