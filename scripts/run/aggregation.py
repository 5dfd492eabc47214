"""What the aggregations read: their files, and hashes of everything else that their results depend on."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from types import SimpleNamespace

from scripts.features.variants.remedy_plan import Remedies
from scripts.features.variants.tuning_plan import Tuning as Tuned
from scripts.matrix import settings, stages, threads
from scripts.matrix.cell import Cell, Kind
from scripts.matrix.entries import Operators, Tuning
from scripts.matrix.matrix import Matrix, compact
from scripts.matrix.stage import Stage
from scripts.run import fingerprint
from scripts.timing import machine_limits


class Aggregation:
    """Answers the questions of the rules that aggregate. `matrix`: of models, with the parts of kernels and
    operators."""

    def __init__(self, matrix: Matrix, remedies: Remedies, tuning: Tuned) -> None:
        self._matrix, self._remedies, self._tuning = matrix, remedies, tuning

    def results(self) -> list[str]:
        """Every file that the aggregation of models reads: those of the rows, and the limits of their devices."""
        return self._with_limits(self._matrix)

    def operator_results(self) -> list[str]:
        """Every file of the stages that the aggregation of operator problems reads."""
        return list(
            dict.fromkeys(
                stage.path(of, file)
                for row in self._matrix.operators.rows()
                for stage, of in self._matrix.timed_chain(row)
                for file in stage.aggregated
            )
        )

    def kernel_results(self) -> list[str]:
        """Every file that the aggregation of kernels reads: those of the rows, and the limits of their devices."""
        of = self._matrix.kernels
        if not of or not of.models:
            return []
        return self._with_limits(of)

    def tuned_results(self) -> list[str]:
        """Every file that the aggregation of tuned models reads. Raises ConfigError for several numbers of
        threads: a module is tuned for one."""
        of = self._matrix
        if listed := threads.numbers(of.measure):
            raise settings.ConfigError(
                f"measure.threads is the list {[*listed]}, but results/tuned.csv needs a single number, for example: "
                f"--config measure='{{threads: {listed[-1]}}}'"
            )
        rows = [*of.tuned_rows(), *of.tuned_baselines()]
        return [*self._aggregated(of, rows, "time_tuned"), *self.machine_limits(of.tuned_devices())]

    def machine_limits(self, devices: Iterable[str]) -> list[str]:
        """The files with the limits of these devices (timing/machine_limits.py)."""
        stage = stages.STAGES["machine_limits"]
        return [stage.path(device, machine_limits.FILE) for device in devices]

    def _with_limits(self, matrix: Matrix) -> list[str]:
        return [*self._aggregated(matrix), *self.machine_limits(matrix.devices())]

    def _aggregated(
        self, matrix: Matrix, rows: Iterable[Cell] | None = None, timed_by: str = "time"
    ) -> list[str]:
        """Every file that the aggregation of a matrix, or of some rows of it, reads. `timed_by`: the stage of the groups."""
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
        found = [*matrix.chain(row), matrix.timed(row, timed_by)]
        of = SimpleNamespace(**row.by_axis())
        if row.kind is Kind.IREE and not self._tuning.is_row(of) and self._remedies.take_part(of):
            found.append((stages.STAGES["remedy"], row.to(Kind.MODULE)))
        return found

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

    def operators_digest(self) -> str:
        """A hash of everything that the aggregation of operator problems reads from the matrix."""
        text = compact(self._matrix.to_json()["operators"])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def tuning_digest(self) -> str:
        """A hash of everything that the aggregation of tuned models reads from the matrix."""
        of = dataclasses.replace(self._matrix, kernels=None, operators=Operators(), expect={})
        return hashlib.sha256(compact(of.to_json()).encode()).hexdigest()[:12]

    def digest(self, matrix: Matrix | None = None) -> str:
        """A hash of everything that the aggregation reads from the matrix of models, or from another one."""
        own = dataclasses.replace(
            matrix or self._matrix, kernels=None, operators=Operators(), tuning=Tuning()
        )
        text = compact(own.to_json())
        return hashlib.sha256(text.encode()).hexdigest()[:12]
