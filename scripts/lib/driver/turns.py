"""Which cells of several toolchains are measured in turns, and from which files."""

from __future__ import annotations

import functools
import shlex

from scripts.lib.config import toolchains
from scripts.lib.config.cell import Cell, Kind
from scripts.lib.config.entries import Target
from scripts.lib.config.matrix import Matrix
from scripts.lib.config.stage import MEASUREMENT, STATUS, TURNS
from scripts.lib.config.stages import STAGES
from scripts.lib.config.toolchains import PINNED


class InTurns:
    """Answers the rule's questions. Its cells have the names of frontend and target without a toolchain."""

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix

    @functools.cached_property
    def _rows(self) -> dict[str, dict[str, Cell]]:
        """The row of each toolchain, by the name of the cell."""
        found: dict[str, dict[str, Cell]] = {}
        if len(self._matrix.toolchains) < 2:
            return found
        for row in self._matrix.rows():
            if row.kind is Kind.IREE:
                own = {toolchains.of(row[axis]) for axis in ("frontend", "target")} - {PINNED}
                values = {axis: toolchains.base(value) for axis, value in row.by_axis().items()}
                name = Cell.of(Kind.IREE, **values).name
                found.setdefault(name, {})[min(own, default=PINNED)] = row
        return {name: rows for name, rows in found.items() if len(rows) > 1}

    def results(self) -> list[str]:
        """The files of all cells that are measured in turns."""
        return [STAGES["turns"].path(name, TURNS) for name in self._rows]

    def files(self, wildcards, file: str) -> list[str]:
        """A file of the measurement of each toolchain."""
        return [STAGES["measure"].path(row, file) for row in self._of(wildcards).values()]

    def sides(self, wildcards) -> str:
        """The options that name the measurement of each toolchain."""
        rows = self._of(wildcards).items()
        words = [("--side", name, STAGES["measure"].path(row, MEASUREMENT)) for name, row in rows]
        return shlex.join(word for option in words for word in option)

    def statuses(self, wildcards) -> list[str]:
        """The status of the measurement of each toolchain."""
        return self.files(wildcards, STATUS)

    def target(self, wildcards) -> Target:
        """The target of one of the modules: all of them run on the same device."""
        row = next(iter(self._of(wildcards).values()))
        return self._matrix.target(row["model"], row["frontend"], row["target"])

    def _of(self, wildcards) -> dict[str, Cell]:
        values = {axis: getattr(wildcards, axis) for axis in ("model", "frontend", "target")}
        return self._rows[Cell.of(Kind.IREE, **values).name]
