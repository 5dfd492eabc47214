"""What the aggregations read: their files, and hashes of everything else that their results depend on."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from typing import Any

from scripts.matrix.cell import Cell, Kind
from scripts.matrix.matrix import Matrix, compact
from scripts.matrix.stages import STAGES, modules
from scripts.run import fingerprint
from scripts.run.makers import Maker
from scripts.timing import machine_limits


class Aggregation:
    """Answers the questions of a rule that aggregates the rows of a matrix."""

    def __init__(self, matrix: Matrix, maker: Maker) -> None:
        self.matrix, self._maker = matrix, maker

    def results(self) -> list[str]:
        """Every file that the aggregation reads: those of the rows, and the limits of their devices."""
        return [*self.of_rows(self.matrix.rows()), *self.machine_limits(self.matrix.devices())]

    def machine_limits(self, devices: Iterable[str]) -> list[str]:
        """The files with the limits of these devices (timing/machine_limits.py); none without the feature that makes
        them."""
        stage = STAGES.get("machine_limits")
        return [stage.path(device, machine_limits.FILE) for device in devices] if stage else []

    def of_rows(self, rows: Iterable[Cell], timed_by: str = "time") -> list[str]:
        """Every file that the aggregation reads from the stages of rows: of their chains, of their groups (which the
        stage `timed_by` times), and of remedies that take part."""
        files: dict[str, None] = {}
        for row in rows:
            chain = [*self.matrix.chain(row), self.matrix.timed(row, timed_by)]
            if row.kind is Kind.IREE and self._maker.take_part(row):
                chain.append((STAGES["remedy"], row.to(Kind.MODULE)))
            for stage, cell in reversed(chain):
                files |= dict.fromkeys(stage.path(cell, file) for file in stage.aggregated)
        return list(files)

    def measuring_code(self) -> str:
        """A hash of the code that measures and verifies rows. When it changes, other rows are stale."""
        codes = {
            fingerprint.code_of_stage(modules(stage, entry))
            for stage in STAGES.values()
            if stage.measures and not stage.is_batch
            for entry in (self.matrix.baselines.values() if stage.entry else [None])
        }
        return hashlib.sha256(" ".join(sorted(codes)).encode()).hexdigest()[:12]

    def digest(self) -> str:
        """A hash of everything that the aggregation reads from the matrix."""
        return digest_of(dataclasses.replace(self.matrix, parts={}).to_json())


def digest_of(values: Any) -> str:
    """A hash of plain values."""
    return hashlib.sha256(compact(values).encode()).hexdigest()[:12]
