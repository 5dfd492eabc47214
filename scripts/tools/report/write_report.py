"""Write the rows of the last run as one page that can be opened without a network. It runs nothing of the workflow."""

from __future__ import annotations

import argparse
from pathlib import Path

from scripts.core import atomic, commands, exits
from scripts.results import results_file
from scripts.results.results_file import BadRecords
from scripts.tools import registry
from scripts.tools.report.web.page import page
from scripts.tools.report.web.page_source import Source

RESULTS, OUT = Path("results/results.jsonl"), Path("results/report.html")


def main() -> None:
    registry.load()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    parser.add_argument("--out", type=Path, default=OUT, help=f"default: {OUT}")
    args = parser.parse_args()
    try:
        records = results_file.read(args.results)
        with results_file.explained(records):
            text = page(Source(args.results.parent, [record.data for record in records]))
        atomic.write_text(args.out, text)
        print(f"{args.out}: {len(records)} rows")
    except (BadRecords, OSError) as error:
        exits.fail(str(error))
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        exits.fail(
            f"a file below {args.results.parent} has another form than expected ({type(error).__name__}: {error}); was it "
            "made by another version? Its next run makes it again"
        )


if __name__ == "__main__":
    commands.run(main)
