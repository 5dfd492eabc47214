"""The tables of flag sets in docs/tuning.md, from workflow/flag_sets.yaml."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scripts.features.variants import flag_sets
from scripts.features.variants.flag_sets import FlagSet, Table
from scripts.records import markdown
from scripts.records.made_part import MadePart


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


PART = MadePart("workflow/flag_sets.yaml", "tuning.md", lambda: tables(flag_sets.table()))
