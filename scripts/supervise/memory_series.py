"""The resident memory of a stage over time, thinned to a few hundred samples: `memory.json` beside usage.json."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from scripts.core import atomic, digest

FILE = "memory.json"
MOST = 240
"""A series has at most twice as many samples. Pairs of samples are then merged."""


@dataclass
class Series:
    """`seconds`: when each sample was taken, since the start of the stage and without waiting for other stages. `mb`: the
    resident set of its process tree in MiB, the largest of the merged samples. `marks`: what the stage did from a moment
    on, as (seconds, name)."""

    seconds: list[float] = field(default_factory=list)
    mb: list[int] = field(default_factory=list)
    marks: list[tuple[float, str]] = field(default_factory=list)

    def add(self, seconds: float, mb: float) -> None:
        """Add a sample. If there are too many, merge pairs of them, so that peaks stay."""
        self.seconds.append(round(seconds, 2))
        self.mb.append(round(mb))
        if len(self.mb) >= 2 * MOST:
            kept = [max(at, at + 1, key=self.mb.__getitem__) for at in range(0, len(self.mb), 2)]
            self.seconds = [self.seconds[at] for at in kept]
            self.mb = [self.mb[at] for at in kept]

    def mark(self, seconds: float, name: str) -> None:
        """Record that something begins."""
        self.marks.append((round(seconds, 2), name))


def write(status_path: Path, series: Series | None) -> None:
    """Write the series of a stage next to its status file. None, or one without samples, removes an older file."""
    path = status_path.with_name(FILE)
    if series is None or not series.mb:
        path.unlink(missing_ok=True)
    else:
        atomic.write_text(path, json.dumps(digest.sealed(asdict(series))) + "\n")


def read(status_path: Path) -> Series | None:
    """Read the series of a stage; None if there is none, or if the file is damaged."""
    import msgspec  # bundles that measure have this module, and their machines no msgspec

    try:
        series = msgspec.convert(
            digest.unsealed(atomic.read_json(status_path.with_name(FILE))), Series
        )
    except (OSError, ValueError, msgspec.ValidationError):
        return None
    return series if len(series.seconds) == len(series.mb) else None
