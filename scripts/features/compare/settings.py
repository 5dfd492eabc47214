"""What counts as a change: the key `compare` of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from scripts.features.compare.outcomes import BROKEN, NEWLY_WRONG


@dataclass(frozen=True)
class Settings:
    """Ratios after / before from which a change for the worse counts; None: never.

    `rate`: of false discoveries among latencies. `outcomes`: the kinds of outcome changes that count.
    The fields and their defaults are those of docs/comparison.md.
    """

    latency: float | None = 1.05
    compile_s: float | None = 2.0
    compile_rss_mb: float | None = 1.5
    run_rss_mb: float | None = 1.2
    vmfb_bytes: float | None = 1.2
    dispatch_count: float | None = 1.1
    rmse_vs_fp64: float | None = 2.0
    outcomes: tuple[str, ...] = (BROKEN, NEWLY_WRONG)
    rate: float = 0.05

    @classmethod
    def of(cls, declared: Mapping[str, Any] | None) -> Settings:
        """The settings of a configuration that has been checked; what it leaves out has the default."""
        given = dict(declared or {})
        if "outcomes" in given:
            given["outcomes"] = tuple(given["outcomes"])
        return cls(**given)

    @property
    def matters(self) -> float:
        """The ratio of latencies from which a change matters."""
        return self.latency or Settings.latency or 1.05


KEYS = tuple(one.name for one in fields(Settings))
