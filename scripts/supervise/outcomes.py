"""The file `outcomes.jsonl` of a batch's stage: how it ended for each problem, one line per problem.

{"problem": "<name>", "outcome": {…}, "seconds": 0.1, "result": {…}}
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.core import atomic
from scripts.supervise.outcome import Outcome


@dataclass(frozen=True)
class Line:
    """The end of a stage for one problem. `seconds`: time that it took; None if it did not end
    by itself. `result`: JSON values that depend on the stage."""

    problem: str
    outcome: Outcome
    seconds: float | None = None
    result: Mapping[str, Any] = field(default_factory=dict)


def write(path: Path, lines: Iterable[Line]) -> None:
    """Write the lines, in order."""
    text = "".join(json.dumps(dataclasses.asdict(line), allow_nan=False) + "\n" for line in lines)
    atomic.write_text(path, text)


def read(path: str | Path) -> dict[str, Line]:
    """Read the lines, by the name of the problem. Raises OSError, or ValueError naming the file."""
    found = {}
    for number, text in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        try:
            values = json.loads(text)
            line = Line(**{**values, "outcome": Outcome(**values["outcome"])})
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}:{number}: not the outcome of a problem ({error})") from error
        found[line.problem] = line
    return found


def read_if_whole(path: str | Path) -> dict[str, Line]:
    """Read the lines; none if the file does not exist or is not whole.

    The status file of the stage says whether it is whole.
    """
    try:
        return read(path)
    except (OSError, ValueError):
        return {}
