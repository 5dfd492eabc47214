"""`--config stop_on=FAIL`: end a run with exit code 1 on rows with these statuses or codes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from scripts.core import atomic
from scripts.matrix import reading, stages
from scripts.matrix.stage import STATUS, VERIFICATION
from scripts.run import outputs, unmeasured
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome
from scripts.verify import codes

KNOWN = (
    *outcome.FAILED,
    outcome.UNAVAILABLE,
    outcome.SKIPPED,
    *(code for code in codes.CODES if code != codes.PASS),
)


class Gate:
    """The statuses and verification codes that end a run; none if `wanted` is None.

    `is_remedied`: whether a failed stage of a cell (its folder, the cell's name) may be made good by
    remedies; then their outcome decides. Raises ConfigError if `wanted` names an unknown status or
    code.
    """

    def __init__(
        self, wanted: str | None, is_remedied: Callable[[str, str], bool] = lambda *_: False
    ) -> None:
        chosen = reading.select("stop_on", KNOWN, wanted) if wanted else []
        self.wanted = frozenset(chosen)
        self._is_remedied = is_remedied
        self._since = time.time()

    def param(self) -> str:
        """Return the param of the CSV's rule.

        Each run with a gate has a new value, so that the CSV is written and its rows are checked
        even if no other job has to run.
        """
        return str(time.time_ns()) if self.wanted else ""

    def finished(self, paths: Sequence[str]) -> str:
        """Return a message if the job that made these files ends the run, else ""."""
        status = next((Path(o) for o in paths if o.endswith(outcome.STATUS)), None)
        if status is None:
            return ""
        ended = outcome.read_or_damaged(status)
        repairing = stages.made_good_by(ended.stage)
        if repairing and ended.status == outcome.SKIPPED:  # nothing has made it good
            status = Path(repairing.path(ended.cell, STATUS))
            ended = outcome.read_or_damaged(status)
        elif self._is_remedied(ended.stage, ended.cell):
            return ""
        if ended.status == outcome.OK or ended.blocked_by:  # that stage was its row's first failure
            return ""
        met = self.wanted & {ended.status, _code(ended, status)}
        return f"{ended.stage} {ended.cell}: {', '.join(met)}: {ended.detail}" if met else ""

    def of_rows(self, rows: Iterable[Mapping[str, str]]) -> list[str]:
        """Return the names of the rows that end the run, each with its status or code."""
        ending_rows = []
        for row in rows:
            if met := self.wanted & {row["status"], row["verification_code"]}:
                name = row.get("model") or row["problem"]
                parts = (name, row["frontend"] or row["runtime"], row["target"])
                ending_rows.append(f"{'/'.join(filter(None, parts))}: {', '.join(met)}")
        return ending_rows

    def problem(self) -> str:
        """Return a message if the rows of a written CSV end the run, else ""."""
        tables = (outputs.CSV, *(files[0] for files in outputs.of_features()))
        for table in tables if self.wanted else ():
            if ending_rows := self.of_rows(outputs.written_rows(self._since, table) or ()):
                more = f", and {len(ending_rows) - 1} more" if len(ending_rows) > 1 else ""
                return (
                    f"stop_on={','.join(sorted(self.wanted))}: {ending_rows[0]}{more} (see {table})"
                )
        return ""


def _code(decisive: Outcome, status: Path) -> str:
    """Return the verification code of a row whose decisive stage was not ok."""
    measured = status.with_name(VERIFICATION)
    if measured.is_file() and measured.stat().st_size:
        return atomic.read_json(measured)["verification"]["code"]
    return unmeasured.unmeasured(decisive)
