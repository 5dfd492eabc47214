"""The candidates of tuning: each is a lowering path, an opt level, a flag set and a preprocessing pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from scripts.features.variants import flag_sets
from scripts.features.variants.flag_sets import FlagSet
from scripts.features.variants.ways import Candidate, Variant

TUNED = "tuned"
AS_CONFIGURED = "default"
FRONTENDS = (TUNED, AS_CONFIGURED)
"""The frontends of rows of results/tuned.csv: the fastest candidate, and the fastest one that the
configuration has anyway. No frontend of a configuration has these names."""
AUTO = "auto"
"""The value of a target's key `tuned`: use the kept results in FOLDER (tuned_results.py)."""
FOLDER = Path("results/tuned")


def candidates(
    backend: str, configured: Sequence[Variant], frontends: Iterable[str], table: flag_sets.Table
) -> list[Candidate]:
    """Return what is tried, each variant once, in order: what is configured, then all combinations.

    `configured`: what the target compiles, a variant for each lowering path. `frontends`: those whose
    programs are tried. The combinations of the first configured opt level come first.
    """
    tried = [
        Candidate(f"{asked.frontend}-as-configured", asked.frontend, asked.opt_level, asked.flags, configured=True)
        for asked in configured
    ]  # fmt: skip
    levels = [*(asked.opt_level for asked in configured), *table.opt_levels.get(backend, ())]
    for level in dict.fromkeys(levels):
        for sets in _combined(backend, level, table):
            flags = tuple(flag for chosen in sets for flag in chosen.flags)
            needs, avoid = (
                tuple(dict.fromkeys(name for chosen in sets for name in getattr(chosen, key)))
                for key in ("needs", "avoid")
            )
            for frontend in frontends:
                name = "-".join([frontend, level, *(chosen.name for chosen in sets)])
                tried.append(Candidate(name, frontend, level, flags, needs=needs, avoid=avoid))
    found: dict[Variant, Candidate] = {}
    for candidate in tried:
        found.setdefault(candidate.variant, candidate)
    return list(found.values())


def _combined(backend: str, level: str, table: flag_sets.Table) -> Iterator[list[FlagSet]]:
    """Yield at most one flag set together with at most one preprocessing, for an opt level."""

    def fitting(section: dict[str, FlagSet]) -> list[list[FlagSet]]:
        return [[]] + [
            [entry]
            for entry in section.values()
            if backend in entry.backends and level in (entry.opt_levels or (level,))
        ]

    for before in fitting(table.preprocessing):
        for chosen in fitting(table.flag_sets):
            yield chosen + before
