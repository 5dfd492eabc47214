"""The rules' view of remedies: what is tried for a cell, the files that this needs, and when it is due.

Whether a cell has remedies does not depend on outcomes, so its job and the exports that it needs are
known before a run. Outcomes only keep finished work from being repeated: a measurement of a module
that compiled as asked does not depend on what remedies there are.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from scripts.core import atomic
from scripts.features.variants import remedy_job as remedies
from scripts.features.variants.remedies import Attempt as Declared
from scripts.features.variants.remedies import Variant
from scripts.features.variants.remedy_job import Attempt
from scripts.iree import tools
from scripts.matrix import stages
from scripts.matrix.cell import Cell, Kind
from scripts.matrix.entries import Target
from scripts.matrix.matrix import Matrix
from scripts.matrix.stage import REPORT, STATUS, Stage
from scripts.matrix.stages import STAGES
from scripts.run import fingerprint, recorded
from scripts.run.environments import Environments
from scripts.run.makers import Maker
from scripts.run.options import compile_options
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome

REMEDY = STAGES["remedy"]
ASKED = STAGES[REMEDY.remedies]
_LIMITED = {"time-limit": "timeout", "memory-limit": "oom"}
"""The status of an attempt that reached a limit, by its reason."""


class Remedies(Maker):
    """Answers the rules' questions about remedies. The wildcards are those of an IREE cell."""

    def __init__(self, matrix: Matrix, found: Environments) -> None:
        self.matrix = matrix
        self._environments = found

    def attempts(self, wildcards) -> list[Attempt]:
        """What is tried where the compilation of a cell fails, in order."""
        target = self.matrix.target(wildcards.model, wildcards.frontend, wildcards.target)
        found = self.matrix.attempts(wildcards.frontend, target)
        return [self._attempt(wildcards, one) for one in found]

    def text(self, wildcards) -> str:
        """The same as text, for the supervisor's command line."""
        return remedies.to_text(self.attempts(wildcards))

    def hang(self, wildcards) -> str:
        """`--hang <why>` if the compilation that was asked for is not run."""
        target = self.matrix.target(wildcards.model, wildcards.frontend, wildcards.target)
        why = self.known_hang(wildcards.model, target, target.asked(wildcards.frontend))
        return f"--hang {shlex.quote(why)}" if why else ""

    def exports(self, wildcards, file: str) -> list[str]:
        """A file of every export whose program may be compiled for a cell.

        A changed table that does not concern the cell leaves its inputs as they are on record, because
        Snakemake runs a job again whose inputs are others.
        """
        attempts = self.attempts(wildcards)
        others = list(dict.fromkeys(attempt.frontend for attempt in attempts))
        if not self._concerned(wildcards, attempts, {}):
            report = self._report(wildcards)
            known = self.matrix.frontends | self.matrix.programs
            before = report.get("frontends", others)
            others = before if set(before) <= known.keys() else others
        return [
            STAGES["export"].path(_program(wildcards, frontend), file)
            for frontend in dict.fromkeys([wildcards.frontend, *others])
        ]

    def take_part(self, wildcards) -> bool:
        """Whether the measurement of a cell depends on its remedies.

        The inputs of a measurement do not change if its module compiled as asked. So it is not repeated
        when remedies are switched on or off, or when results are from before there were remedies.
        """
        if self.compiled_as_asked(wildcards):
            return os.path.exists(_status(REMEDY, wildcards))
        return bool(self.attempts(wildcards))

    def may_make_good(self, stage: str, of: str) -> bool:
        """Whether remedies are tried where a stage (its folder) of a cell (its name) fails."""
        if stage != ASKED.folder:
            return False
        return bool(self.attempts(SimpleNamespace(**Cell.parse(of, Kind.IREE).by_axis())))

    def modules(self, wildcards, file: str) -> list[str]:
        """A file of the stages that may have made the module of a cell: the compilation, and its remedies if
        they take part."""
        makers = [ASKED, REMEDY] if self.take_part(wildcards) else [ASKED]
        return [stage.path(_cell(wildcards), file) for stage in makers]

    def compiled_as_asked(self, wildcards) -> bool:
        """Whether the compilation that was asked for is recorded as ok."""
        found = _outcome(ASKED, wildcards)
        return found is not None and found.status == outcome.OK

    def stand(self, wildcards) -> bool:
        """Whether a measurement ignores the age of what remedies left: its module compiled as asked, and is not newer.

        If it is newer, because a run ended between the two stages, that of the remedies runs again. If their outputs are
        `ancient` then, Snakemake 9.27 leaves out the measurement although its module is newer, and the row would keep the
        latency of an earlier module.
        """
        if not self.compiled_as_asked(wildcards):
            return False
        asked, left = (_status(stage, wildcards) for stage in (ASKED, REMEDY))
        return not os.path.exists(left) or os.path.getmtime(asked) <= os.path.getmtime(left)

    def due(self, wildcards, code: str, retry: Collection[str], limits: Mapping[str, float]) -> str:
        """The param `due` of the job (see fingerprint.due). A change of the table counts as a change of the
        code for a cell that it concerns: what was asked for failed, and other attempts would be made
        now than those on record."""
        attempts, found = self.attempts(wildcards), _outcome(REMEDY, wildcards)
        now = remedies.fingerprint(code, attempts)
        if found is not None:
            if self._concerned(wildcards, attempts, limits):
                return fingerprint.after(found.due, now)
            if remedies.code_of(found.fingerprint) == code:
                now = found.fingerprint
        return fingerprint.due(_status(REMEDY, wildcards), now, retry)

    def _concerned(
        self, wildcards, attempts: Sequence[Attempt], limits: Mapping[str, float]
    ) -> bool:
        """Whether other attempts would be made now than those in the report of a cell, or under another
        limit that one of them reached."""
        asked = _outcome(ASKED, wildcards)
        if asked is None or not asked.is_remediable:
            return False
        report = self._report(wildcards)
        return bool(report) and _differs(report, remedies.wanted(attempts, asked.reason), limits)

    def _report(self, wildcards) -> Mapping[str, Any]:
        """The report of a cell; {} if there is none. One that is not whole is made again anyway."""
        found = (
            recorded.outcome_of(_status(REMEDY, wildcards)) if _outcome(REMEDY, wildcards) else None
        )
        if found is None or not found.whole:
            return {}
        return atomic.read_json(REMEDY.path(_cell(wildcards), REPORT))

    def _attempt(self, wildcards, declared: Declared) -> Attempt:
        target = self.matrix.target(wildcards.model, wildcards.frontend, wildcards.target)
        variant = declared.variant
        exported = _program(wildcards, variant.frontend)
        return Attempt(
            remedy=declared.remedy,
            frontend=variant.frontend,
            opt_level=variant.opt_level,
            flags=variant.flags,
            reasons=declared.reasons,
            options=tuple(compile_options(target, variant.opt_level, variant.flags)),
            program=STAGES["export"].path(exported, "program.mlir"),
            export=STAGES["export"].path(exported, STATUS),
            hang=self.known_hang(wildcards.model, target, variant),
        )

    def known_hang(self, model: str, target: Target, variant: Variant) -> str:
        """Why a variant is not compiled for a target; "" if it is."""
        iree = self._environments.pins(target.env).get(tools.PACKAGE, "") if target.hangs else ""
        return next(
            (
                f"{hang.why} (workflow/remedies.yaml, IREE {iree})"
                for hang in target.hangs
                if hang.covers(model, target.backend, variant, iree)
            ),
            "",
        )


def _differs(
    report: Mapping[str, Any], attempts: Sequence[Attempt], limits: Mapping[str, float]
) -> bool:
    """Whether a report is of other attempts than these, or of another limit that one has reached."""
    tried = [one["attempt"] for one in report["tried"]]
    now = [remedies.table_digest([attempt]) for attempt in attempts]
    if report["name"] is not None:  # what comes after the one that works is not tried
        return now[: len(tried)] != tried
    reached = {_LIMITED[one["reason"]] for one in report["tried"] if one["reason"] in _LIMITED}
    moved = any(limits[one] != report["limits"][one] for one in reached & limits.keys())
    return now != tried or moved


def _cell(wildcards) -> Cell:
    row = Cell.of(
        Kind.IREE,
        model=wildcards.model,
        frontend=wildcards.frontend,
        target=wildcards.target,
    )
    return row.to(Kind.MODULE)


def _program(wildcards, frontend: str) -> Cell:
    return Cell.of(Kind.PROGRAM, model=wildcards.model, frontend=frontend)


def _status(stage: Stage, wildcards) -> str:
    return stages.status_path(stage.folder, _cell(wildcards))


def _outcome(stage: Stage, wildcards) -> Outcome | None:
    """The recorded outcome of a stage of a cell; None if there is none that can be read."""
    try:
        found = recorded.outcome_of(_status(stage, wildcards))
    except ValueError:
        return None
    return found.outcome if found else None
