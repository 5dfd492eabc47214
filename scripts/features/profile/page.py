"""The account of a cell as text tables."""

from __future__ import annotations

from collections.abc import Sequence

from scripts.features.profile.account import IREE, Account, Part
from scripts.features.profile.first import worth_looking_at
from scripts.features.profile.reading import Profiles
from scripts.records.wording import milliseconds

NAMES = {IREE: "IREE"}
SHOWN = 0.01
"""Modules and dispatches with a smaller share of each runtime's time are shown in one row."""


def page(profiles: Profiles, found: Account) -> str:
    """What `vmfbench why` prints."""
    runtimes = [*profiles.torch, IREE]
    return "\n".join(
        (
            _title(profiles, found),
            "",
            *_modules(found, runtimes),
            "",
            *_dispatches(found),
            "",
            "Look first at",
            *(
                f"{place}. {text}"
                for place, text in enumerate(
                    worth_looking_at(found, profiles.iree["threads"]), start=1
                )
            ),
        )
    )


def _title(profiles: Profiles, found: Account) -> str:
    calls = [f"{NAMES.get(name, name)} {milliseconds(ms)}" for name, ms in found.call_ms.items()]
    if found.limit_ms is not None:
        calls.append(f"limit {milliseconds(found.limit_ms)}")
    return f"{profiles.cell}: ms per call: {', '.join(calls)}; {profiles.iree['threads']} threads"


def _modules(found: Account, runtimes: Sequence[str]) -> list[str]:
    total = {name: sum(part.ms[name] for part in found.parts) for name in runtimes}
    large = [
        part
        for part in found.parts
        if any(total[name] and part.ms[name] / total[name] >= SHOWN for name in runtimes)
    ]
    small = [part for part in found.parts if part not in large]
    has_limit = found.limit_ms is not None
    head = ["module", "class", "×", *(f"{NAMES.get(name, name)} ms" for name in runtimes)]
    rows = [_row(part, runtimes, has_limit) for part in large]
    if small:
        rest = Part("(all others)", "", sum(part.modules for part in small))
        rest.ms = {name: sum(part.ms[name] for part in small) for name in runtimes}
        limits = [part.limit_ms for part in small if part.limit_ms is not None]
        rest.limit_ms = sum(limits) if limits else None
        rows.append(_row(rest, runtimes, has_limit))
    together = Part("all", "", sum(part.modules for part in found.parts), dict(total))
    together.limit_ms = found.limit_ms
    rows.append(_row(together, runtimes, has_limit))
    return aligned([*head, *(["limit ms"] if has_limit else [])], rows, left=2)


def _row(part: Part, runtimes: Sequence[str], has_limit: bool) -> list[str]:
    limit = [_ms(part.limit_ms)] if has_limit else []
    return [part.name, part.kind, str(part.modules), *(_ms(part.ms[n]) for n in runtimes), *limit]


def _ms(value: float | None) -> str:
    return milliseconds(value) if value else "–"


def _dispatches(found: Account) -> list[str]:
    head = ["share", "ms", "calls", "workgroups", "busy", "dispatch", "operators", "modules"]
    rows = [
        [
            f"{one.share:.0%}",
            milliseconds(one.ms),
            str(one.calls),
            str(one.tiles),
            f"{one.busy:.1f}" if one.busy is not None else "–",
            one.function,
            _some(one.operators),
            _some(one.parts),
        ]
        for one in found.kernels
        if one.share >= SHOWN
    ]
    return aligned(head, rows, left=3, from_right=True)


def _some(names: Sequence[str], most: int = 3) -> str:
    more = f" + {len(names) - most}" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def aligned(
    head: Sequence[str], rows: Sequence[Sequence[str]], left: int, from_right: bool = False
) -> list[str]:
    """Lines of a table. `left`: the number of columns of text at the left (`from_right`: at the right) end."""
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    texts = range(len(head) - left, len(head)) if from_right else range(left)

    def line(row: Sequence[str]) -> str:
        cells = (
            cell.ljust(width) if place in texts else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(cells).rstrip()

    return [line(head), *map(line, rows)]
