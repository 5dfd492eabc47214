"""Write the results as one page that can be opened without a network: results/report.html."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scripts.core import atomic, commands, exits
from scripts.core.commands import option
from scripts.results import results_file
from scripts.results.results_file import BadRecords
from scripts.tools import registry
from scripts.tools.report.web.page import page
from scripts.tools.report.web.page_source import Source


@dataclass(frozen=True, kw_only=True)
class Options:
    results: Path = option(Path("results/results.jsonl"), help="file of records")
    out: Path = option(help="such as results/report.html")


def main() -> None:
    registry.load()
    args = commands.parse_options(Options)
    try:
        records = results_file.read(args.results)
        with results_file.explained(records):
            text = page(Source(args.results.parent, [record.data for record in records]))
        atomic.write_text(args.out, text)
    except (BadRecords, OSError) as error:
        exits.fail(str(error))
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        exits.fail(
            f"a file below {args.results.parent} has another form than expected ({type(error).__name__}: {error}); was it "
            "made by another version? Its next run makes it again"
        )


if __name__ == "__main__":
    commands.run(main)
