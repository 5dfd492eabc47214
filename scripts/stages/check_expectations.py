"""Compare the rows of the last run with `expect:`, of the configuration or of a file; exit with 1 if any differs. With --files, compare
the files of the run with the checksums of what was written.

A status, stage or reason that is expected must be the one that was found, so an expected failure that works now differs too. A verdict
that is not decided never does.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from scripts.config import cell
from scripts.config.stages import OUTCOMES
from scripts.core import atomic, commands, exits
from scripts.results import at_hand, ci_formats, expectations
from scripts.results.ci_formats import BAD_INPUT, Case
from scripts.results.expectations import Checked, Violation
from scripts.results.page_sections import Section, as_markdown
from scripts.results.results_file import BadRecords, cell_of, read
from scripts.run import outputs
from scripts.supervise import outcome
from scripts.tools import registry


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
                print(
                    f"  {json.dumps(str(cell_of(record)))}: {json.dumps(expectations.entry(record))}"
                )
            return 0
        if args.file:
            data = args.file.read_bytes()
            expect = expectations.parsed(data, str(args.file))
        else:
            expect = atomic.read_json(rows.parent / "logs" / "matrix.json")["expect"]
        checked = expectations.check(chosen, expect)
        if not checked:
            raise BadRecords(
                f"none of {len(chosen)} cells has an expectation, so nothing is checked"
            )
        if args.update:
            new, difference = expectations.updated(data.decode(), chosen)
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
