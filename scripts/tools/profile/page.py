"""The account of a cell, in `vmfbench why` and the report page: tables of its modules and dispatches, and what is worth looking at first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scripts.config import stages
from scripts.config.cell import Cell, Kind
from scripts.core import checkout
from scripts.results.page_sections import Section, Styled, as_text
from scripts.results.wording import milliseconds
from scripts.tools.profile import account as accounts
from scripts.tools.profile import profile_files
from scripts.tools.profile.account import NAMES, PRODUCTS, Account, Kernel, Part
from scripts.tools.profile.profile_files import IREE, Profiles
from scripts.tools.report.web.page_source import AGAIN, Source, View

SHOWN = 0.01
"""Modules and dispatches with a smaller share of each runtime's time are shown in one row."""
MOST = 3
"""Modules that are named."""
WORTH = 0.05
"""A module is named if it is slower than PyTorch by at least this share of IREE's time."""
ONE_THREAD = 1.2
"""Up to this many busy threads, a dispatch is said to run on one."""
NO_LIMIT = 10_000
"""Characters of a line of `vmfbench why`."""
LAYOUT = "_encoding_"
"""What the names of dispatches begin with that change the layout of a tensor for data tiling."""


def page(profiles: Profiles, account: Account) -> str:
    """What `vmfbench why` prints."""
    return as_text(sections(profiles, account), width=NO_LIMIT).rstrip()


def sections(profiles: Profiles, account: Account) -> list[Section]:
    """What is shown of a cell."""
    threads = profiles.iree["threads"]
    calls = [f"{NAMES.get(name, name)} {milliseconds(ms)}" for name, ms in account.call_ms.items()]
    if account.limit_ms is not None:
        calls.append(f"limit {milliseconds(account.limit_ms)}")
    head = f"{profiles.cell}: ms per call: {', '.join(calls)}; {threads} threads"
    doubts = f"In doubt, so nothing is recommended: {'; '.join(account.doubts)}"
    first = enumerate(worth_looking_at(account, threads), start=1)
    return [
        Section("", lines=[*([doubts] if account.doubts else []), head, *_beside(account)]),
        _modules(account, [*profiles.torch, IREE]),
        _dispatches(account),
        Section("Look first at", lines=[f"{place}. {text}" for place, text in first]),
    ]


def _beside(account: Account) -> Iterator[str]:
    """A line about the calls between the profiled ones, and how busy the machine was."""
    known = {name: beside for name, beside in account.profiled.items() if "control_ms" in beside}
    if known:
        spans = (
            f"{NAMES.get(name, name)} {milliseconds(min(beside['control_ms']))} to {milliseconds(max(beside['control_ms']))}"
            for name, beside in known.items()
        )
        load = max(beside["load"] for beside in known.values())
        yield f"control, the same calls where they were profiled: {', '.join(spans)}; load {load:.1f}"


def _modules(account: Account, runtimes: Sequence[str]) -> Section:
    total = {name: sum((part.ms[name] for part in account.parts), 0.0) for name in runtimes}
    large = [
        part
        for part in account.parts
        if any(total[name] and part.ms[name] / total[name] >= SHOWN for name in runtimes)
    ]
    small = [part for part in account.parts if part not in large]
    if small:
        limits = [part.limit_ms for part in small if part.limit_ms is not None]
        rest = {name: sum((part.ms[name] for part in small), 0.0) for name in runtimes}
        count = sum(part.modules for part in small)
        large.append(Part("(all others)", "", count, rest, sum(limits) if limits else None))
    count = sum(part.modules for part in account.parts)
    large.append(Part("all", "", count, total, account.limit_ms))
    head = ["module", "class", "×", *(f"{NAMES.get(name, name)} ms" for name in runtimes)]
    most = max((ms for part in large[:-1] for ms in part.ms.values()), default=0.0) or 1.0
    rows: list[list[str]] = [
        [
            part.name,
            part.kind,
            str(part.modules),
            *(Styled(_ms(part.ms[name]), share=None if part is large[-1] else part.ms[name] / most) for name in runtimes),
        ]
        for part in large
    ]  # fmt: skip
    if account.limit_ms is not None:
        head.append("limit ms")
        rows = [[*row, _ms(part.limit_ms)] for row, part in zip(rows, large, strict=True)]
    return Section("", head, rows, range(2, len(head)))


def _ms(value: float | None) -> str:
    return milliseconds(value) if value else "–"


def _dispatches(account: Account) -> Section:
    head = ["share", "ms", "calls", "workgroups", "busy", "dispatch", "operators", "modules"]
    rows = [
        [
            Styled(f"{kernel.share:.0%}", share=kernel.share),
            milliseconds(kernel.ms),
            str(kernel.calls),
            str(kernel.tiles),
            f"{kernel.busy:.1f}" if kernel.busy is not None else "–",
            kernel.function,
            some(kernel.operators),
            some(kernel.parts),
        ]
        for kernel in account.kernels
        if kernel.share >= SHOWN
    ]
    return Section("", head, rows, range(5))


def some(names: Sequence[str], most: int = 3) -> str:
    """The first names, and how many more there are."""
    more = f" + {len(names) - most}" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def worth_looking_at(account: Account, threads: int) -> list[str]:
    """Sentences about the modules in which IREE loses most, the worst one first; if there is none, one that says so; none if
    the profiles are in doubt."""
    if account.doubts:
        return []
    total = sum(part.ms.get(IREE, 0.0) for part in account.parts) or 1.0
    slower = sorted(account.parts, key=lambda part: -part.excess_ms)
    named = [part for part in slower if part.excess_ms / total >= WORTH][:MOST]
    if not named:
        largest = [f"{part.name} ({part.ms[IREE] / total:.0%})" for part in account.parts[:MOST]]
        return [
            f"In no module is IREE slower than the faster of eager and inductor by {WORTH:.0%} of its time. "
            f"Most of the time is in {', '.join(largest)}."
        ]
    return [" ".join(_about(part, account, threads)) for part in named]


def _about(part: Part, account: Account, threads: int) -> Iterator[str]:
    ms, best = part.ms[IREE], part.best_torch
    yield f"{part.name} ({part.kind or 'no class'}, {part.modules} ×): {milliseconds(ms)} ms,"
    if best:
        yield f"{milliseconds(part.excess_ms)} ms more than {best[0]}."
    elif part.limit_ms is None:
        yield "with nothing to compare it with."
    else:
        yield f"{milliseconds(part.excess_ms)} ms more than the machine's limit."
    if part.flop and ms:
        beside = f" ({best[0]}: {part.flop / best[1] / 1e6:,.0f})" if best and best[1] else ""
        yield f"{part.flop / ms / 1e6:,.0f} GFLOP/s{beside}."
    for kernel in [kernel for kernel in account.kernels if part.name in kernel.parts][:2]:
        if kernel.ms / ms >= 0.1:
            yield _dispatch(kernel, threads)


def _dispatch(kernel: Kernel, threads: int) -> str:
    """A sentence about a dispatch, with what is remarkable about it."""
    notes = []
    if kernel.tiles < threads:
        notes.append(f"{_counted(kernel.tiles, 'workgroup')} for {threads} threads")
    elif threads > 1 and kernel.busy is not None and kernel.busy <= ONE_THREAD:
        notes.append(f"{kernel.busy:.1f} of {threads} threads busy")
    if kernel.function.startswith(LAYOUT):
        notes.append("changes a layout for data tiling")
    elif not set(kernel.operators) & PRODUCTS and kernel.operators:
        notes.append(f"no product: {', '.join(kernel.operators[:4])}")
    said = f"{kernel.function}: {milliseconds(kernel.ms)} ms in {_counted(kernel.calls, 'call')}"
    return f"{said} ({'; '.join(notes)})." if notes else f"{said}."


def _counted(number: int, name: str) -> str:
    return f"{number} {name}{'s' * (number != 1)}"


def why(source: Source) -> list[Section] | None:
    """Return the account of every cell that has a profile: its modules and dispatches, beside PyTorch and the machine's
    limit; None if there is no profile."""
    below = source.root / stages.STAGES["profile_iree"].path(".")
    cells = [
        str(Cell.parse(path.parent.relative_to(below).as_posix(), Kind.IREE_DUMP).row)
        for path in sorted(below.glob(f"*/iree/**/{profile_files.PROFILE}"))
        if path.stat().st_size
    ]
    places = {str(row.cell): index for index, row in enumerate(source.rows)}
    parts = {cell: known for cell in cells if (known := _sections_of(source, cell))}
    return [
        Section(cell, parts=known, folded=at > 0, rows=[("details",)] if cell in places else (), places=[places.get(cell)])
        for at, (cell, known) in enumerate(parts.items())
    ] or None  # fmt: skip


def _sections_of(source: Source, cell: str) -> list[Section]:
    """Return what is shown of a cell; nothing if a file of it is damaged."""
    try:
        profiles = profile_files.read(source.results, cell)
        return sections(profiles, accounts.account(profiles))
    except (profile_files.NoProfile, ValueError, LookupError, TypeError):
        return []


VIEWS = (
    View("why", "Why slow", why, f"There are no profiles. To make them: {checkout.run_command('profile', 'models=vit')}{AGAIN}"),
)  # fmt: skip
