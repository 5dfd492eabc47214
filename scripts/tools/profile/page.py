"""The account of a cell, in `vmfbench why` and the report page: the terms of the gap, its largest parts, regions and dispatches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from scripts.config import stages
from scripts.core import atomic, checkout
from scripts.results.page_sections import NO_LIMIT, Chart, Line, Section, Styled, as_text
from scripts.results.wording import milliseconds
from scripts.tools.profile import account as accounts
from scripts.tools.profile import profile_files
from scripts.tools.profile.account import NAMES, Account, Dispatched, Estimate, Region, some
from scripts.tools.profile.dispatch_view import chosen, counted, inner_loop
from scripts.tools.profile.profile_files import IREE, PROFILES, Profiles
from scripts.tools.profile.profilers import PRODUCTS
from scripts.tools.report.web.page_source import AGAIN, Source, View

SHOWN = 0.01
"""Dispatches and regions with a smaller share of a call are not shown, or in one row."""
MOST = 3
"""Parts of the gap that are named first."""
WORTH = 0.05
"""A part of the gap is named if it is at least this share of IREE's call."""
ONE_THREAD = 1.2
"""Up to this many busy threads, a dispatch is said to run on one."""
SAME = "as long elsewhere"
"""What a bar begins with: the part of a call that is in no term."""


def page(profiles: Profiles, account: Account) -> str:
    """What `vmfbench why` prints."""
    return as_text(sections(profiles, account), width=NO_LIMIT).rstrip()


def sections(profiles: Profiles, account: Account) -> list[Section]:
    """What is shown of a cell."""
    threads = profiles.iree["threads"]
    calls = [f"{_named(name)} {milliseconds(ms)}" for name, ms in account.call_ms.items()]
    if account.limit_ms is not None:
        calls.append(f"limit {milliseconds(account.limit_ms)}")
    head = f"{profiles.cell}: ms per call: {', '.join(calls)}; {threads} threads"
    doubts = f"In doubt, so nothing is recommended: {'; '.join(account.doubts)}"
    first = [f"{place}. {text}".replace("\n", "\n   ") for place, text in enumerate(largest(profiles, account), start=1)]  # fmt: skip
    none = f"No part of the gap to {_named(account.against)} is {WORTH:.0%} of IREE's call."
    return [
        Section("", lines=[*([doubts] if account.doubts else []), head, *_beside(account)]),
        Section("Look first at", lines=first or [none] * bool(account.gap and not account.doubts)),
        *_terms(account),
        *_regions(account),
        _dispatches(account),
    ]


def summary(results: Path, against: str = "") -> list[Section]:
    """A row per group that was profiled: its fastest cell of IREE beside the fastest other runtime, or `against`. [] if there is no profile. Raises ValueError if
    no group has a profile of `against`."""
    rows, missing = [], ""
    for path in _files(results):
        best: Account | None = None
        for cell in _cells(path):
            try:
                accounted = accounts.account(profile_files.read(results, cell), against)
            except profile_files.NoProfile:
                continue
            except ValueError as error:
                missing = str(error)
                continue
            if best is None or accounted.call_ms[IREE] < best.call_ms[IREE]:
                best, name = accounted, cell
        if best and best.gap:
            parts = [
                f"{best.terms[term].ms / best.call_ms[IREE]:+.0%}".replace("-", "−")
                if term in best.terms
                else ""
                for term in accounts.TERMS
            ]
            ratio = best.call_ms[IREE] / best.call_ms[best.against]
            rows.append([name, milliseconds(best.call_ms[IREE]), best.against, milliseconds(best.call_ms[best.against]), f"{ratio:.2f}", *parts, "; ".join(best.doubts)])  # fmt: skip
    if missing and not rows:
        raise ValueError(missing)
    head = ["IREE's fastest cell", "ms", "beside", "ms", "ratio", *accounts.TERMS, "in doubt"]
    doubted = any(row[-1] for row in rows)
    if not doubted:
        head, rows = head[:-1], [row[:-1] for row in rows]
    lines = ["What the gap consists of, in % of IREE's call. `vmfbench why CELL` has the rest."]
    return [Section("", head, rows, [1, *range(3, 11)], lines=lines)] if rows else []


def _files(results: Path) -> list[Path]:
    """The files of the profiles of all groups."""
    below = results.parent / stages.STAGES["profile"].path(".")
    return sorted(below.glob(f"*/*/*/{PROFILES}"))


def _cells(path: Path) -> list[str]:
    """The cells of IREE in a file of profiles; [] if it is damaged."""
    try:
        members = atomic.read_artifact(path).get("members", {})
    except ValueError:
        return []
    return [name for name, ended in members.items() if ended.get("profile", {}).get("runtime") == IREE]  # fmt: skip


def _named(runtime: str) -> str:
    return NAMES.get(runtime, runtime)


def _beside(account: Account) -> Iterator[str]:
    """A line about the calls between the profiled ones, and how busy the machine was."""
    spans = (
        f"{_named(name)} {milliseconds(min(beside['control_ms']))} to {milliseconds(max(beside['control_ms']))}"
        for name, beside in account.profiled.items()
    )
    load = max(beside["load"] for beside in account.profiled.values())
    yield f"control, the same calls where they were profiled: {', '.join(spans)}; load {load:.1f}"


def _terms(account: Account) -> Iterator[Section]:
    """The terms of the gap, which add up to it."""
    if account.gap is None:
        return
    rows = [[term, *_signed(estimate), _share(estimate, account)] for term, estimate in account.terms.items()]  # fmt: skip
    rows.append(["all", *_signed(account.gap), _share(account.gap, account)])
    head = [f"IREE − {_named(account.against)}", "ms", "±", "of IREE's call"]
    yield Section("", head, rows, range(1, 4))


def _signed(estimate: Estimate) -> tuple[str, str]:
    half = "?" if estimate.half_ms is None else milliseconds(estimate.half_ms) if estimate.half_ms else "0"  # fmt: skip
    return _difference(estimate.ms), half


def _difference(ms: float) -> str:
    return f"{'+' if ms > 0 else '−'}{milliseconds(abs(ms))}" if ms else "0"


def _share(estimate: Estimate, account: Account) -> str:
    return f"{estimate.ms / account.call_ms[IREE]:+.0%}".replace("-", "−")


def _regions(account: Account) -> Iterator[Section]:
    """The regions of both sides, those with a large gap or a large time."""
    if account.gap is None:
        return
    least = SHOWN * max(account.call_ms[IREE], account.call_ms[account.against])
    large = [row for row in account.regions if max(row.iree_ms, row.other_ms) >= least]
    small = [row for row in account.regions if row not in large]
    codes = {dispatch.function: dispatch.code for dispatch in account.dispatches}
    head = ["modules", "×", "IREE ms", f"{_named(account.against)} ms", "difference", "limit ms", "GFLOP/s", "", "GB/s", "", "mostly", "shape", "inner loop"]  # fmt: skip
    rows = [
        [
            row.name,
            str(row.regions),
            _ms(row.iree_ms),
            _ms(row.other_ms),
            _difference(row.iree_ms - row.other_ms),
            _ms(row.limit_ms),
            *(f"{count / ms / 1e6:,.0f}" if count and ms else "–" for count in (row.flop, row.moved) for ms in (row.iree_ms, row.other_ms)),
            max(row.terms, key=lambda term: abs(row.terms[term].ms), default=""),
            row.shape,
            inner_loop(codes.get(row.function, {})),
        ]
        for row in large
    ]  # fmt: skip
    if small:
        own, other = (sum(getattr(row, name) for row in small) for name in ("iree_ms", "other_ms"))
        rows.append(["(all others)", str(sum(row.regions for row in small)), _ms(own), _ms(other), _difference(own - other), *[""] * 8])  # fmt: skip
    yield Section("", head, rows, range(1, 10))


def _ms(value: float | None) -> str:
    return milliseconds(value) if value else "–"


def _dispatches(account: Account) -> Section:
    head = ["share", "ms", "calls", "workgroups", "busy", "dispatch", "operators", "modules", "inner loop"]  # fmt: skip
    rows = [
        [
            Styled(f"{dispatch.share:.0%}", share=dispatch.share),
            milliseconds(dispatch.ms),
            str(dispatch.calls),
            str(dispatch.tiles),
            f"{dispatch.busy:.1f}" if dispatch.busy is not None else "–",
            dispatch.function,
            some(dispatch.operators),
            some(dispatch.modules),
            inner_loop(dispatch.code),
        ]
        for dispatch in account.dispatches
        if dispatch.share >= SHOWN
    ]
    return Section("", head, rows, range(5))


def largest(profiles: Profiles, account: Account) -> list[str]:
    """Lines about each of the largest parts of the gap, each a region or the time between kernels; none if the profiles are in doubt."""
    if account.gap is None or account.doubts:
        return []
    between = account.terms[accounts.BETWEEN]
    count = sum(dispatch.calls for dispatch in account.dispatches)
    parts: list[tuple[float, Iterable[str]]] = [(region.iree_ms - region.other_ms, _about(region, profiles, account)) for region in account.regions]  # fmt: skip
    parts.append((between.ms, [f"{accounts.BETWEEN}, in {counted(count, 'dispatch', 'es')}: {_with_half(between)} ms."]))  # fmt: skip
    parts.sort(key=lambda part: -part[0])
    return ["\n".join(lines) for ms, lines in parts[:MOST] if ms >= WORTH * account.call_ms[IREE]]


def _with_half(estimate: Estimate) -> str:
    ms, half = _signed(estimate)
    return ms if half == "?" else f"{ms} ± {half}"


def _about(region: Region, profiles: Profiles, account: Account) -> Iterator[str]:
    terms = sorted(region.terms.items(), key=lambda item: -item[1].ms)
    both = f"{milliseconds(region.iree_ms)} ms, {_named(account.against)} {_ms(region.other_ms)}"
    split = ", ".join(f"{term} {_with_half(estimate)}" for term, estimate in terms if estimate.ms)
    yield f"{region.name} ({region.regions} ×): {both}: {split}."
    for dispatch in account.dispatches:
        if dispatch.function == region.function:
            yield _dispatch(dispatch, profiles.iree["threads"])
            if region.elsewhere:
                cell, there = region.elsewhere
                yield f"the same modules in {cell}: {milliseconds(there.ms)} ± {milliseconds(there.half_ms or 0.0)} ms"
            yield f"its code: vmfbench why {profiles.cell} --dispatch {region.function}"
            yield f"by itself: vmfbench reduce {profiles.cell} --dispatches"


def _dispatch(dispatch: Dispatched, threads: int) -> str:
    """A sentence about a dispatch, with what is remarkable about it."""
    notes = []
    if dispatch.tiles < threads:
        notes.append(f"{counted(dispatch.tiles, 'workgroup')} for {threads} threads")
    elif threads > 1 and dispatch.busy is not None and dispatch.busy <= ONE_THREAD:
        notes.append(f"{dispatch.busy:.1f} of {threads} threads busy")
    if not set(dispatch.operators) & PRODUCTS and dispatch.operators:
        notes.append(f"no product: {', '.join(dispatch.operators[:4])}")
    if dispatch.code:
        notes += [chosen(dispatch.code), f"inner loop: {inner_loop(dispatch.code)}"]
    said = (
        f"{dispatch.function}: {milliseconds(dispatch.ms)} ms in {counted(dispatch.calls, 'call')}"
    )
    return f"{said} ({'; '.join(notes)})." if notes else f"{said}."


def why(source: Source) -> list[Section] | None:
    """Return the account of every cell that has a profile, and a chart per model of what its gaps consist of; None if there is no profile."""
    cells = [cell for path in _files(source.results) for cell in _cells(path)]
    places = {str(row.cell): index for index, row in enumerate(source.rows)}
    known = {cell: read for cell in cells if (read := _read(source, cell))}
    by_model: dict[str, list[Account]] = defaultdict(list)
    for profiles, account in known.values():
        if account.gap is not None and not account.doubts:
            by_model[profiles.cell.model].append(account)
    charts = [_chart(model, accounted) for model, accounted in by_model.items()]
    return [Section("", charts=charts)] * bool(charts) + [
        Section(cell, parts=sections(*read), folded=at > 0, rows=[("details",)] if cell in places else (), places=[places.get(cell)])
        for at, (cell, read) in enumerate(known.items())
    ] or None  # fmt: skip


def _chart(model: str, accounted: Sequence[Account]) -> Chart:
    """A bar per lowering path of a model, and one of the fastest other runtime. A bar of IREE is what takes as long elsewhere, and the terms that
    are longer here; so all of a bar is a call."""
    against = accounted[0].against
    bars = [*(account.path for account in accounted), against]
    parts: dict[str, list[tuple[float, float, None, None]]] = defaultdict(list)
    for at, account in enumerate(accounted):
        longer = {term: estimate.ms for term, estimate in account.terms.items() if estimate.ms > 0}
        parts[SAME].append((at, max(0.0, account.call_ms[IREE] - sum(longer.values())), None, None))
        for term, ms in longer.items():
            parts[term].append((at, ms, None, None))
    parts[SAME].append((len(accounted), accounted[0].call_ms[against], None, None))
    lines = [Line(name, name, parts[name]) for name in (SAME, *accounts.TERMS) if name in parts]
    return Chart(model, "ms", lines, ticks=bars, stacked=True)


def _read(source: Source, cell: str) -> tuple[Profiles, Account] | None:
    """The profiles of a cell and their account; None if a file of it is damaged or of another version."""
    try:
        profiles = profile_files.read(source.results, cell)
        return profiles, accounts.account(profiles)
    except (profile_files.NoProfile, ValueError, LookupError, TypeError):
        return None


VIEWS = (
    View("why", "Why slow", why, f"There are no profiles. To make them: {checkout.run_command('profile', 'models=vit')}{AGAIN}"),
)  # fmt: skip
