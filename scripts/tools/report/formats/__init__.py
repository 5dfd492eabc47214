"""Formats that other tools read. Each module here is one, and `export_records` finds it by name.

A format is a module with

- a docstring, whose first line `--help` shows,
- ``FILE``: the name of the file, if the format writes a single one,
- ``add_options(group)``: adds the options of the format,
- ``render(export, args)``: the text of the file, or the texts of several files by name,
- ``RESULTS`` and ``read(path)``, if it does not read results.jsonl: the default of ``--results``, and
  the records of such a file, which have the keys `cell` and those of the section `experiment`.

A format tells the user with ``export.note`` what the file does not contain.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from scripts.results.results_file import BadRecords, Record

CELL_KEYS = (
    "cell", "device", "precision", "dtype", "test", "batch_size", "runtime", "frontend", "target",
    "xla_flags", "toolchain", "suite", "model",
)  # fmt: skip
"""Keys that distinguish records, and by which `--only` selects; after `cell`, which follows from the others, the simplest first."""


@dataclasses.dataclass
class Export:
    """What to write: `records` are the selected ones, `everything` those of the whole file. They are
    of the class Record, or of that of the format's own `read`."""

    records: list[Any]
    everything: list[Any]
    timestamp: float
    """When the run ended, in seconds since the epoch; the same for all records."""
    notes: list[str] = dataclasses.field(default_factory=list)

    def note(self, text: str) -> None:
        """Tell the user what the reader of the file will not see."""
        self.notes.append(text)


def distinct(
    records: Iterable[Record],
    key: Callable[[Record], Hashable],
    merged_as: str,
    advice: str = "",
) -> None:
    """Raise BadRecords for two records that the reader would confuse: it would drop one or mix them.

    The message has `advice`, or else the `--only` that distinguishes the two.
    """
    seen: dict[Hashable, Record] = {}
    for record in records:
        first = seen.setdefault(key(record), record)
        if first is record:
            continue
        both = f"{first.where} ({first['cell']}) and {record.where} ({record['cell']})"
        differ = [k for k in CELL_KEYS[1:] if first[k] != record[k]]
        if not differ:
            raise BadRecords(
                f"{both} are the same cell; are these two runs in one file? Export each by itself"
            )
        choice = " or ".join(
            f"--only '{differ[0]}={as_text(r[differ[0]])}'" for r in (first, record)
        )
        raise BadRecords(f"{both} would be {merged_as}; {advice or f'choose one with {choice}'}")


def named(records: Iterable[Record]) -> str:
    """Cells for a message: a few of them, and how many more."""
    cells = list(dict.fromkeys(record["cell"] for record in records))
    return ", ".join(cells[:5]) + (f" and {len(cells) - 5} more" if len(cells) > 5 else "")


def as_text(value: Any) -> str:
    """A value as `--only` compares it; None is the empty text."""
    return "" if value is None else str(value)
