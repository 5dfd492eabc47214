"""What the aggregations read: their files, and hashes of everything else that their results depend on."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from typing import Any

from scripts.matrix import stages
from scripts.matrix.cell import Cell, Kind
from scripts.matrix.matrix import Matrix, compact
from scripts.matrix.stage import Stage
from scripts.run import fingerprint
from scripts.run.makers import Maker
from scripts.timing import machine_limits


class Aggregation:
    """Answers the questions of the rules that aggregate. `matrix`: of models, with the parts of kernels and
    operators."""

    def __init__(self, matrix: Matrix, maker: Maker) -> None:
        self._matrix, self._maker = matrix, maker

    def results(self) -> list[str]:
        """Every file that the aggregation of models reads: those of the rows, and the limits of their devices."""
        return self.with_limits(self._matrix)

    def machine_limits(self, devices: Iterable[str]) -> list[str]:
        """The files with the limits of these devices (timing/machine_limits.py); none without the feature that makes them."""
        stage = stages.STAGES.get("machine_limits")
        if not stage:
            return []
        return [stage.path(device, machine_limits.FILE) for device in devices]

    def with_limits(self, matrix: Matrix) -> list[str]:
        return [*self.aggregated(matrix), *self.machine_limits(matrix.devices())]

    def aggregated(
        self, matrix: Matrix, rows: Iterable[Cell] | None = None, timed_by: str = "time"
    ) -> list[str]:
        """Every file that the aggregation of a matrix, or of some rows of it, reads from their stages. `timed_by`: the stage of the groups."""
        return list(
            dict.fromkeys(
                stage.path(of, file)
                for row in (matrix.rows() if rows is None else rows)
                for stage, of in reversed(self._stages(row, matrix, timed_by))
                for file in stage.aggregated
            )
        )

    def _stages(self, row: Cell, matrix: Matrix, timed_by: str) -> list[tuple[Stage, Cell]]:
        """The stages of a row: its chain, that of its group, and its remedies if they take part."""
        chain = [*matrix.chain(row), matrix.timed(row, timed_by)]
        if row.kind is Kind.IREE and self._maker.take_part(row):
            chain.append((stages.STAGES["remedy"], row.to(Kind.MODULE)))
        return chain

    def measuring_code(self, matrix: Matrix | None = None) -> str:
        """A hash of the code that measures and verifies rows. When it changes, other rows are stale."""
        baselines = (matrix or self._matrix).baselines.values()
        measuring = [s for s in stages.STAGES.values() if s.measures and not s.is_batch]
        codes = {
            fingerprint.code_of_stage(stages.modules(stage, entry))
            for stage in measuring
            for entry in (baselines if stage.entry else [None])
        }
        return hashlib.sha256(" ".join(sorted(codes)).encode()).hexdigest()[:12]

    def digest(self, matrix: Matrix | None = None) -> str:
        """A hash of everything that the aggregation reads from the matrix of models, or from another one."""
        return digest_of(dataclasses.replace(matrix or self._matrix, parts={}).to_json())


def digest_of(values: Any) -> str:
    """A hash of plain values."""
    return hashlib.sha256(compact(values).encode()).hexdigest()[:12]
