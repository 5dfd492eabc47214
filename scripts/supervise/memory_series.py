"""The resident memory of a stage over time, thinned to a few hundred samples: `memory.json` beside usage.json."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from scripts.core import atomic

FILE = "memory.json"
MOST = 240
"""A series has at most twice as many samples. Pairs of samples are then merged."""


@dataclass(frozen=True)
class Series:
    """`seconds`: when each sample was taken, since the start of the stage and without waiting for other
    stages. `mb`: the resident set of its process tree in MiB, the largest of the merged samples.
    `marks`: what the stage did from a moment on, as (seconds, name)."""

    seconds: tuple[float, ...]
    mb: tuple[int, ...]
    marks: tuple[tuple[float, str], ...] = ()


class Recorder:
    """Collects the samples of a running stage."""

    def __init__(self) -> None:
        self._samples: list[tuple[float, float]] = []
        self._marks: list[tuple[float, str]] = []

    def add(self, seconds: float, mb: float) -> None:
        """Add a sample. If there are too many, merge pairs of them, so that peaks stay."""
        self._samples.append((seconds, mb))
        if len(self._samples) >= 2 * MOST:
            pairs = zip(self._samples[::2], self._samples[1::2], strict=True)
            self._samples = [max(pair, key=lambda sample: sample[1]) for pair in pairs]

    def mark(self, seconds: float, name: str) -> None:
        """Record that something begins."""
        self._marks.append((seconds, name))

    @property
    def series(self) -> Series:
        """What was recorded so far."""
        return Series(
            tuple(round(seconds, 2) for seconds, _ in self._samples),
            tuple(round(mb) for _, mb in self._samples),
            tuple((round(seconds, 2), name) for seconds, name in self._marks),
        )


def write(status_path: Path, series: Series | None) -> None:
    """Write the series of a stage next to its status file. None, or one without samples, removes an older file."""
    path = status_path.with_name(FILE)
    if series is None or not series.mb:
        path.unlink(missing_ok=True)
    else:
        atomic.write_text(path, json.dumps(asdict(series)) + "\n")


def read(status_path: Path) -> Series | None:
    """Read the series of a stage; None if there is none, or if the file is damaged."""
    try:
        series = msgspec.convert(atomic.read_json(status_path.with_name(FILE)), Series)
    except (OSError, ValueError, msgspec.ValidationError):
        return None
    return series if len(series.seconds) == len(series.mb) else None
