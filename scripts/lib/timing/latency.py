"""Latency: the values are kept, the statistics derived; and how much to trust them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Latency:
    """One value a repetition, in milliseconds: wall time a call, and its CPU time if known."""

    values_ms: tuple[float, ...]
    cpu_ms: tuple[float, ...] = ()
    iterations: int = 1

    def __post_init__(self) -> None:
        if not self.values_ms:
            raise ValueError("a latency has at least one repetition")

    @property
    def count(self) -> int:
        return len(self.values_ms)

    @property
    def median(self) -> float:
        return statistics.median(self.values_ms)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values_ms)

    @property
    def min(self) -> float:
        return min(self.values_ms)

    @property
    def stdev(self) -> float | None:
        """Sample standard deviation (n - 1); None for a single repetition."""
        return statistics.stdev(self.values_ms) if self.count > 1 else None

    @property
    def cv(self) -> float | None:
        """Coefficient of variation: stdev / mean."""
        return self.stdev / self.mean if self.stdev is not None and self.mean else None

    @property
    def p95(self) -> float | None:
        """95th percentile by linear interpolation (numpy's default); None under two values."""
        if self.count < 2:
            return None
        return statistics.quantiles(self.values_ms, n=20, method="inclusive")[18]

    @property
    def cpu_per_real(self) -> float | None:
        """CPU seconds a wall second over all repetitions: near the threads that were busy."""
        return sum(self.cpu_ms) / sum(self.values_ms) if self.cpu_ms else None


@dataclass(frozen=True)
class HostLoad:
    """What else the machine did while measuring, as shares of all its CPU time (0 to 1).

    `foreign`: other processes; `steal`: the hypervisor's other guests.
    """

    foreign: float
    steal: float


GRADES = ("high", "medium", "low")


@dataclass(frozen=True)
class Trust:
    """`grade` high, medium or low, and why it is not high."""

    grade: str
    reasons: tuple[str, ...]


# (what, bound for high, bound for medium)
_CV = (0.03, 0.10)
_REPETITIONS = (10, 5)
_FOREIGN = (0.05, 0.20)
_STEAL = (0.02, 0.10)


def trust(latency: Latency, load: HostLoad) -> Trust:
    """Grade a measurement by its repetitions, its spread and what else ran meanwhile."""
    checks: Sequence[tuple[float, tuple[float, float], str]] = (
        (-latency.count, (-_REPETITIONS[0], -_REPETITIONS[1]), f"{latency.count} repetitions"),
        (
            1.0 if latency.cv is None else latency.cv,
            _CV,
            "spread unknown" if latency.cv is None else f"cv {latency.cv:.1%}",
        ),
        (load.foreign, _FOREIGN, f"other processes took {load.foreign:.0%} of the CPUs"),
        (load.steal, _STEAL, f"the hypervisor took {load.steal:.0%} of the CPUs"),
    )
    grades = [0 if value <= high else 1 if value <= medium else 2 for value, (high, medium), _ in checks]  # fmt: skip
    reasons = tuple(text for grade, (_, _, text) in zip(grades, checks, strict=True) if grade > 0)
    return Trust(GRADES[max(grades)], reasons)
