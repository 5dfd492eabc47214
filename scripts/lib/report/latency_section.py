"""The section `latency` of a record: figures over the rounds that were timed."""

from __future__ import annotations

from collections.abc import Sequence

from scripts.lib.config import training
from scripts.lib.report import rounds
from scripts.lib.report.rounds import Measured
from scripts.lib.timing.latency import trust


def of(timed: Sequence[Measured], test: str, phase: str | None, batch_size: int) -> dict:
    """The latency over the rounds that were timed, with the figures of language models. A training step has none."""
    section = figures(timed)
    if test != training.EVAL:
        return section
    return section | _of_language_model(section["median_ms"], phase, batch_size)


def figures(timed: Sequence[Measured]) -> dict:
    """The latency over the rounds that were timed. Speed-ups are added later."""
    latency = rounds.latency(timed)
    drift = rounds.speed_drift(timed)
    grade = trust(latency, rounds.host(timed), drift)
    return {
        "median_ms": latency.median,
        "mean_ms": latency.mean,
        "min_ms": latency.min,
        "p95_ms": latency.p95,
        "stdev_ms": latency.stdev,
        "cv": latency.cv,
        "repetitions": latency.count,
        "iterations": latency.iterations,
        "cpu_per_real": latency.cpu_per_real,
        "trust": grade.grade,
        "trust_reasons": list(grade.reasons),
        "machine_drift": drift,
        "values_ms": list(latency.values_ms),
        "cpu_ms": list(latency.cpu_ms),
        "rounds": [rounds.described(one) for one in timed],
    }


def _of_language_model(latency_ms: float, phase: str | None, batch_size: int) -> dict[str, float]:
    """The usual figures for language models: milliseconds from a prompt to its first new token (prefill),
    and new tokens per second of the whole batch (decode)."""
    if phase == "prefill":
        return {"ttft_ms": latency_ms}
    if phase == "decode":
        return {"tokens_per_s": batch_size * 1e3 / latency_ms}
    return {}
