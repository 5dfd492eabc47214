"""Names what is worth looking at first, with the figures that say so."""

from __future__ import annotations

from collections.abc import Iterator

from scripts.features.profile.account import IREE, Account, Kernel, Part
from scripts.features.profile.modules import PRODUCTS
from scripts.records.wording import milliseconds

MOST = 3
"""Modules that are named."""
WORTH = 0.05
"""A module is named if it is slower than PyTorch by at least this share of IREE's time."""
ONE_THREAD = 1.2
"""Up to this many busy threads, a dispatch is said to run on one."""
LAYOUT = ("_encoding_",)
"""What the names of dispatches begin with that change the layout of a tensor for data tiling."""


def worth_looking_at(found: Account, threads: int) -> list[str]:
    """Sentences about the modules in which IREE loses most, the worst one first; if there is none, one that says so."""
    total = sum(part.ms.get(IREE, 0.0) for part in found.parts) or 1.0
    slower = sorted(found.parts, key=lambda part: -part.excess_ms)
    named = [part for part in slower if part.excess_ms / total >= WORTH][:MOST]
    if not named:
        largest = [f"{part.name} ({part.ms[IREE] / total:.0%})" for part in found.parts[:MOST]]
        return [
            f"In no module is IREE slower than the faster of eager and inductor by {WORTH:.0%} of its time. "
            f"Most of the time is in {', '.join(largest)}."
        ]
    return [" ".join(_about(part, found, threads)) for part in named]


def _about(part: Part, found: Account, threads: int) -> Iterator[str]:
    yield f"{part.name} ({part.kind or 'no class'}, {part.modules} ×): {milliseconds(part.ms[IREE])} ms,"
    best = part.best_torch
    if best:
        yield f"{milliseconds(part.excess_ms)} ms more than {best[0]}."
    elif part.limit_ms is None:
        yield "with nothing to compare it with."
    else:
        yield f"{milliseconds(part.excess_ms)} ms more than the machine's limit."
    if part.flop and part.ms[IREE]:
        yield f"{part.flop / part.ms[IREE] / 1e6:,.0f} GFLOP/s{_beside(part)}."
    for kernel in [one for one in found.kernels if part.name in one.parts][:2]:
        if kernel.ms / part.ms[IREE] >= 0.1:
            yield _dispatch(kernel, threads)


def _beside(part: Part) -> str:
    best = part.best_torch
    return f" ({best[0]}: {part.flop / best[1] / 1e6:,.0f})" if best and best[1] else ""


def _dispatch(kernel: Kernel, threads: int) -> str:
    """A sentence about a dispatch, with what is remarkable about it."""
    said = f"{kernel.function}: {milliseconds(kernel.ms)} ms in {_counted(kernel.calls, 'call')}"
    notes = []
    if kernel.tiles < threads:
        notes.append(f"{_counted(kernel.tiles, 'workgroup')} for {threads} threads")
    elif threads > 1 and kernel.busy is not None and kernel.busy <= ONE_THREAD:
        notes.append(f"{kernel.busy:.1f} of {threads} threads busy")
    if kernel.function.startswith(LAYOUT):
        notes.append("changes a layout for data tiling")
    elif not set(kernel.operators) & PRODUCTS and kernel.operators:
        notes.append(f"no product: {', '.join(kernel.operators[:4])}")
    return f"{said} ({'; '.join(notes)})." if notes else f"{said}."


def _counted(number: int, name: str) -> str:
    return f"{number} {name}{'s' * (number != 1)}"
