"""The tables of remedies in docs/troubleshooting.md, from workflow/remedies.yaml."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from scripts.features.variants import remedies
from scripts.features.variants.remedies import Hang, Remedy, Table
from scripts.records import markdown
from scripts.records.made_part import MadePart


def tables(table: Table) -> str:
    """Return the tables as Markdown."""
    parts = [
        _markdown(("remedy", "what it does", "why", "seen on", "versions"), map(_remedy, table.remedies.values())),
        _for_reasons(table.remedies),
        _markdown(
            ("backend", "tried in this order"),
            ((f"`{name}`", ", ".join(f"`{one}`" for one in names)) for name, names in table.order.items()),
        ),
    ]  # fmt: skip
    if table.hangs:
        head = ("not run (`known-hang`)", "backends", "levels", "IREE", "because")
        parts.append(_markdown(head, map(_hang, table.hangs)))
    return "\n".join(parts)


def _remedy(one: Remedy) -> Sequence[str]:
    versions = ", ".join(f"{name} {version}" for name, version in one.versions.items())
    return f"`{one.name}`", f"{one.does} ({_changes(one)})", one.why, one.seen, versions


def _changes(one: Remedy) -> str:
    """Return what a remedy changes, in the words of the configuration."""

    def parts() -> Iterator[str]:
        if one.frontend:
            yield f"`{one.frontend}`"
        if one.opt_level:
            yield f"`{one.opt_level}`"
        yield from (f"with `{flag}`" for flag in one.add_flags)
        yield from (f"without `{flag}`" for flag in one.drop_flags)

    return ", ".join(parts())


def _for_reasons(found: Mapping[str, Remedy]) -> str:
    """Return for which reasons the remedies are tried; those with the same reasons together."""
    names: dict[tuple[str, ...], list[str]] = {}
    for one in found.values():
        names.setdefault(one.reasons, []).append(f"`{one.name}`")
    together = ((", ".join(f"`{reason}`" for reason in reasons), ", ".join(of)) for reasons, of in names.items())  # fmt: skip
    return _markdown(("first failure", "remedies that are tried"), together)


def _hang(one: Hang) -> Sequence[str]:
    what = f"{', '.join(one.models)} by {', '.join(one.frontends)}"
    return what, *(", ".join(of) for of in (one.backends, one.opt_levels, one.iree)), one.why


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return markdown.table(head, [[cell.replace("|", "\\|") for cell in row] for row in rows])


PART = MadePart("workflow/remedies.yaml", "troubleshooting.md", lambda: tables(remedies.table()))
