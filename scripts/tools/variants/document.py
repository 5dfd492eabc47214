"""Parts of docs/: the tables of remedies in troubleshooting.md, those of flag sets in tuning.md, and of devices in gpu_static.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from scripts.config import compile_tables, reading
from scripts.config.compile_tables import FlagSet, FlagSetTable, Hang, Remedy, RemedyTable
from scripts.core import checkout
from scripts.results import wording
from scripts.tools.gpu_static import page as gpu_page

END = "<!-- End of what it makes. -->\n"


@dataclass(frozen=True)
class MadePart:
    """A part of a page in docs/ that `vmfbench docs` makes, between two lines that mark it.

    `source`: the file with the data. `page`: its name. `render`: returns the part.
    """

    source: str
    page: str
    render: Callable[[], str]

    @property
    def begin(self) -> str:
        """The line that marks the beginning."""
        return f"<!-- Made by `vmfbench docs` from {self.source}. -->\n"

    def within(self, text: str) -> str:
        """Return a page with this part made anew. Raises ValueError if it lacks the two lines."""
        before, begin, rest = text.partition(self.begin)
        _, end, after = rest.partition(END)
        if not (begin and end):
            raise ValueError(f"the lines {self.begin.strip()!r} and {END.strip()!r} are missing")
        return f"{before}{begin}\n{self.render()}\n{END}{after}"


def of_remedies(table: RemedyTable, targets: Mapping[str, Sequence[str]]) -> str:
    """Return the tables of remedies as Markdown. `targets`: those of config.yaml with a list of remedies."""
    by_reasons: dict[tuple[str, ...], list[str]] = {}
    for remedy in table.remedies.values():
        by_reasons.setdefault(remedy.reasons, []).append(remedy.name)
    parts = [
        _escaped(("remedy", "what it does", "why", "seen on", "versions"), map(_remedy, table.remedies.values())),
        _escaped(
            ("first failure", "remedies that are tried"),
            ((_codes(reasons), _codes(names)) for reasons, names in by_reasons.items()),
        ),
        _escaped(
            ("backend, or target of config.yaml", "tried in this order"),
            (
                *((f"`{name}`", _codes(names)) for name, names in table.order.items()),
                *((f"target `{name}`", _codes(names)) for name, names in targets.items()),
            ),
        ),
    ]  # fmt: skip
    if table.hangs:
        head = ("not run (`known-hang`)", "backends", "levels", "IREE", "because")
        parts.append(_escaped(head, map(_hang, table.hangs)))
    return "\n".join(parts)


def _remedy(remedy: Remedy) -> Sequence[str]:
    versions = ", ".join(f"{name} {version}" for name, version in remedy.versions.items())
    changes = [f"`{value}`" for value in (remedy.frontend, remedy.opt_level) if value]
    changes += [f"with `{flag}`" for flag in remedy.add_flags]
    changes += [f"without `{flag}`" for flag in remedy.drop_flags]
    does = f"{remedy.does} ({', '.join(changes)})"
    return f"`{remedy.name}`", does, remedy.why, remedy.seen, versions


def _hang(hang: Hang) -> Sequence[str]:
    what = f"{', '.join(hang.models)} by {', '.join(hang.frontends)}"
    return what, *map(", ".join, (hang.backends, hang.opt_levels, hang.iree)), hang.why


def of_flag_sets(table: FlagSetTable) -> str:
    """Return the tables of flag sets as Markdown."""
    head = ("backends", "what it does", "tried for", "why", "seen", "IREE")
    levels = ((f"`{name}`", _codes(listed)) for name, listed in table.opt_levels.items())
    properties = ((name, _codes(texts)) for name, texts in table.properties.items())
    parts = [
        wording.table(("flag set", *head), map(_flag_set, table.flag_sets.values())),
        wording.table(("preprocessing", *head), map(_flag_set, table.preprocessing.values())),
        wording.table(("backend", "opt levels that are tried"), levels),
        wording.table(
            ("a program has", "if one of these regular expressions is found in a line of it"),
            properties,
        ),
    ]
    return "\n".join(parts)


def _flag_set(entry: FlagSet) -> Sequence[str]:
    tried_for = [f"programs with {' and '.join(entry.needs)}" if entry.needs else "all programs"]
    if entry.avoid:
        tried_for.append(f"not with {' or '.join(entry.avoid)}")
    if entry.opt_levels:
        tried_for.append(f"at {', '.join(entry.opt_levels)}")
    return (
        f"`{entry.name}`",
        _codes(entry.backends),
        f"{entry.does} ({_codes(entry.flags)})",
        ", ".join(tried_for),
        entry.why,
        entry.seen,
        ", ".join(entry.iree),
    )


def _codes(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _escaped(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return wording.table(head, [[cell.replace("|", "\\|") for cell in row] for row in rows])


def _shipped() -> Mapping[str, Sequence[str]]:
    targets = reading.read(checkout.ROOT / "config.yaml")["targets"]
    return {name: entry["remedies"] for name, entry in targets.items() if entry.get("remedies")}


PARTS = (
    MadePart(
        "workflow/remedies.yaml",
        "troubleshooting.md",
        lambda: of_remedies(compile_tables.remedies(), _shipped()),
    ),
    MadePart(
        "workflow/flag_sets.yaml", "tuning.md", lambda: of_flag_sets(compile_tables.flag_sets())
    ),
    MadePart("scripts/tools/gpu_static/devices.py", "gpu_static.md", gpu_page.of_devices),
)
