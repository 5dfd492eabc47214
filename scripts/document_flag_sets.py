"""Write the tables of flag sets into docs/tuning.md, from workflow/flag_sets.yaml.

python -m scripts.document_flag_sets
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from scripts.lib.config import flag_sets
from scripts.lib.config.flag_sets import FlagSet, Table
from scripts.lib.core import atomic, checkout, exits
from scripts.lib.report import markdown

PAGE = checkout.ROOT / "docs" / "tuning.md"
BEGIN = "<!-- Made by `python -m scripts.document_flag_sets` from workflow/flag_sets.yaml. -->\n"
END = "<!-- End of what it makes. -->\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.document_flag_sets", description=__doc__
    )
    parser.add_argument("page", nargs="?", type=Path, default=PAGE)
    args = parser.parse_args()
    try:
        text = args.page.read_text(encoding="utf-8")
        atomic.write_text(args.page, with_tables(text, flag_sets.table()))
    except (OSError, ValueError) as error:
        exits.fail(f"{args.page}: {error}")


def with_tables(page: str, table: Table) -> str:
    """Return a page with the tables between its two marks. Raises ValueError if it has none."""
    return markdown.with_made(page, BEGIN, END, tables(table))


def tables(table: Table) -> str:
    """Return the tables as Markdown."""
    head = ("name", "backends", "what it does", "tried for", "why", "seen", "IREE")
    levels = ((f"`{name}`", _codes(of)) for name, of in table.opt_levels.items())
    properties = ((name, _codes(texts)) for name, texts in table.properties.items())
    parts = [
        markdown.table(("flag set", *head[1:]), map(_row, table.flag_sets.values())),
        markdown.table(("preprocessing", *head[1:]), map(_row, table.preprocessing.values())),
        markdown.table(("backend", "opt levels that are tried"), levels),
        markdown.table(
            ("a program has", "if one of these regular expressions is found in a line of it"),
            properties,
        ),
    ]
    return "\n".join(parts)


def _row(one: FlagSet) -> Sequence[str]:
    flags = ", ".join(f"`{flag}`" for flag in one.flags)
    return (
        f"`{one.name}`",
        _codes(one.backends),
        f"{one.does} ({flags})",
        _conditions(one),
        one.why,
        one.seen,
        ", ".join(one.iree),
    )


def _conditions(one: FlagSet) -> str:
    """Return the programs for which a set is tried, in words."""
    needed = " and ".join(one.needs)
    avoided = " or ".join(one.avoid)
    words = [f"programs with {needed}"] if needed else ["all programs"]
    at = f"at {', '.join(one.opt_levels)}" if one.opt_levels else ""
    return ", ".join([*words, *filter(None, (f"not with {avoided}" if avoided else "", at))])


def _codes(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


if __name__ == "__main__":
    main()
