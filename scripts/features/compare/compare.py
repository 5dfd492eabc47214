"""Compares two sets of rows: all that has changed, and all that could not be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from scripts.features.compare import amounts, comparable, latencies, means, outcomes
from scripts.features.compare.amounts import AmountChange
from scripts.features.compare.decisions import SLOWER, UNDECIDED
from scripts.features.compare.latencies import Estimate, LatencyChange, NotCompared
from scripts.features.compare.means import MeanChange
from scripts.features.compare.outcomes import OutcomeChange
from scripts.features.compare.pairs import Pair
from scripts.features.compare.settings import Settings

Record = Mapping[str, Any]


@dataclass(frozen=True)
class VersionChange:
    """A package whose version has changed in `rows` rows, or an option of the compilation."""

    name: str
    before: str
    after: str
    rows: int


@dataclass(frozen=True)
class Comparison:
    """`before`, `after`: what was compared. `cells`: in both. `unchanged`: those of them with the same outcome.
    See the modules of each kind of change."""

    before: str
    after: str
    settings: Settings
    cells: int
    unchanged: int
    versions: tuple[VersionChange, ...]
    outcomes: tuple[OutcomeChange, ...]
    latencies: tuple[LatencyChange, ...]
    not_compared: tuple[NotCompared, ...]
    amounts: tuple[AmountChange, ...]
    means: tuple[MeanChange, ...]

    @property
    def undecided(self) -> list[LatencyChange]:
        return [one for one in self.latencies if one.verdict == UNDECIDED]

    @property
    def alarms(self) -> list[OutcomeChange | LatencyChange | AmountChange]:
        """The changes for the worse that count, by the settings."""
        found: list[OutcomeChange | LatencyChange | AmountChange] = []
        found += [one for one in self.outcomes if one.kind in self.settings.outcomes]
        found += [one for one in self.latencies if is_alarm(one, self.settings)]
        found += [one for one in self.amounts if one.worse]
        return found

    def as_json(self) -> dict[str, Any]:
        """The comparison as JSON, with the alarms as text."""
        return asdict(self) | {"alarms": [one.cell for one in self.alarms]}


def is_alarm(one: LatencyChange, settings: Settings) -> bool:
    """Return whether a cell is found to be slower, by at least the threshold."""
    return settings.latency is not None and one.verdict == SLOWER and one.ratio >= settings.latency


def compare(
    pairs: Sequence[Pair],
    before: str,
    after: str,
    settings: Settings,
    in_turns: Mapping[str, Estimate] | None = None,
) -> Comparison:
    """Return what has changed. `in_turns`: the changes of cells whose programs were timed again in turns, which replace
    those by their rows."""
    estimates, not_compared = _estimates(pairs, in_turns or {})
    both = [pair for pair in pairs if pair.both]
    changed = [one for one in map(outcomes.change, pairs) if one]
    order = list(outcomes.KINDS)
    in_both = {pair.cell for pair in both}
    return Comparison(
        before,
        after,
        settings,
        cells=len(both),
        unchanged=len(both) - sum(one.cell in in_both for one in changed),
        versions=_versions(both),
        outcomes=tuple(sorted(changed, key=lambda one: order.index(one.kind))),
        latencies=tuple(latencies.decided(estimates, settings.rate, settings.matters)),
        not_compared=tuple(not_compared),
        amounts=tuple(amounts.changes(_comparable(both), settings)),
        means=tuple(means.means(estimates, pairs)),
    )


def _estimates(
    pairs: Sequence[Pair], in_turns: Mapping[str, Estimate]
) -> tuple[list[Estimate], list[NotCompared]]:
    estimates: list[Estimate] = []
    not_compared: list[NotCompared] = []
    for pair in pairs:
        found = latencies.of_pair(pair, in_turns.get(pair.cell))
        if isinstance(found, Estimate):
            estimates.append(found)
        elif found is not None:
            not_compared.append(found)
    return estimates, not_compared


def _comparable(both: Sequence[Pair]) -> list[Pair]:
    """The pairs without those that are not the same measurement; the turns do not matter here."""
    return [pair for pair in both if pair.both and not comparable.difference(*pair.both)]


def _versions(both: Sequence[Pair]) -> tuple[VersionChange, ...]:
    """The versions and options that differ, the most frequent change first."""
    found: Counter[tuple[str, str, str]] = Counter()
    for pair in both:
        assert pair.both is not None
        was, now = map(_made_with, pair.both)
        for name in dict.fromkeys([*was, *now]):
            if was.get(name) != now.get(name):
                found[name, was.get(name) or "none", now.get(name) or "none"] += 1
    return tuple(VersionChange(*key, count) for key, count in found.most_common())


def _made_with(record: Record) -> dict[str, str | None]:
    """The versions of a row, and the options that may differ between rows that are compared."""
    experiment = record["experiment"]
    rewrites = (record.get("export") or {}).get("rewrites") or []
    return dict(record["versions"]) | {
        "opt level": experiment.get("opt_level"),
        "flags": " ".join(experiment.get("flags") or []) or None,
        "rewrites": ", ".join(rewrites) or None,
    }
