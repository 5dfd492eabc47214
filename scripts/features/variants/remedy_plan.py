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
from typing import Any, TypeVar

import msgspec

from scripts.core import atomic
from scripts.features.variants import candidates, remedy_job
from scripts.features.variants.candidates import Candidate
from scripts.matrix.cell import Cell, Kind
from scripts.matrix.entries import Target
from scripts.matrix.env_files import COMPILER
from scripts.matrix.matrix import Matrix
from scripts.matrix.stage import REPORT, STATUS, Stage
from scripts.matrix.stages import STAGES
from scripts.matrix.ways import Attempt, Variant
from scripts.run import fingerprint, recorded
from scripts.run.environments import Environments
from scripts.run.makers import Maker
from scripts.run.options import compile_options
from scripts.run.recorded import Recorded
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome

REMEDY = STAGES["remedy"]
ASKED = STAGES[REMEDY.remedies]
_LIMITED = {"time-limit": "timeout", "memory-limit": "oom"}
"""The status of an attempt that reached a limit, by its reason."""

AnyWay = TypeVar("AnyWay", Attempt, Candidate)


class Remedies(Maker):
    """Answers the rules' questions about remedies. The wildcards are those of an IREE cell."""

    def __init__(self, matrix: Matrix, found: Environments) -> None:
        self.matrix = matrix
        self._environments = found

    def attempts(self, wildcards) -> list[Attempt]:
        """What is tried where the compilation of a cell fails, in order."""
        target = self._target(wildcards)
        declared = self.matrix.attempts(wildcards.frontend, target)
        return [self.completed(attempt, wildcards.model, target) for attempt in declared]

    def text(self, wildcards) -> str:
        """The same as text, for the supervisor's command line."""
        return candidates.to_text(self.attempts(wildcards))

    def completed(self, way: AnyWay, model: str, target: Target) -> AnyWay:
        """An attempt or a candidate with the files and options of its compilation."""
        exported = program(model, way.frontend)
        return msgspec.structs.replace(
            way,
            options=tuple(compile_options(target, way.opt_level, way.flags)),
            program=STAGES["export"].path(exported, "program.mlir"),
            export=STAGES["export"].path(exported, STATUS),
            hang=self._known_hang(model, target, way.variant),
        )

    def hang(self, wildcards) -> str:
        """`--hang <why>` if the compilation that was asked for is not run."""
        target = self._target(wildcards)
        why = self._known_hang(wildcards.model, target, target.asked(wildcards.frontend))
        return f"--hang {shlex.quote(why)}" if why else ""

    def _known_hang(self, model: str, target: Target, variant: Variant) -> str:
        """Why a variant is not compiled for a target; "" if it is."""
        iree = self._environments.pins(target.env).get(COMPILER, "") if target.hangs else ""
        for hang in target.hangs:
            if hang.covers(model, target.backend, variant, iree):
                return f"{hang.why} (workflow/remedies.yaml, IREE {iree})"
        return ""

    def _target(self, wildcards) -> Target:
        return self.matrix.target(wildcards.model, wildcards.frontend, wildcards.target)

    def exports(self, wildcards, file: str) -> list[str]:
        """A file of every export whose program may be compiled for a cell.

        A changed table that does not concern the cell leaves its inputs as they are on record, because
        Snakemake runs a job again whose inputs are others.
        """
        attempts = self.attempts(wildcards)
        others = list(dict.fromkeys(attempt.frontend for attempt in attempts))
        if not self._concerned(wildcards, attempts, {}):
            known = self.matrix.frontends | self.matrix.programs
            before = _report(wildcards).get("frontends", others)
            others = before if set(before) <= known.keys() else others
        return [
            STAGES["export"].path(program(wildcards.model, frontend), file)
            for frontend in dict.fromkeys([wildcards.frontend, *others])
        ]

    def take_part(self, wildcards) -> bool:
        """Whether the measurement of a cell depends on its remedies.

        The inputs of a measurement do not change if its module compiled as asked. So it is not repeated
        when remedies are switched on or off, or when results are from before there were remedies.
        """
        if _compiled_as_asked(wildcards):
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
        return [stage.path(_module(wildcards), file) for stage in makers]

    def stand(self, wildcards) -> bool:
        """Whether a measurement ignores the age of what remedies left: its module compiled as asked, and is not newer.

        If it is newer, because a run ended between the two stages, that of the remedies runs again. If their outputs are
        `ancient` then, Snakemake 9.27 leaves out the measurement although its module is newer, and the row would keep the
        latency of an earlier module.
        """
        if not _compiled_as_asked(wildcards):
            return False
        asked, left = (_status(stage, wildcards) for stage in (ASKED, REMEDY))
        return not os.path.exists(left) or os.path.getmtime(asked) <= os.path.getmtime(left)

    def due(self, wildcards, code: str, retry: Collection[str], limits: Mapping[str, float]) -> str:
        """The param `due` of the job (see fingerprint.due). A change of the table counts as a change of the
        code for a cell that it concerns: what was asked for failed, and other attempts would be made
        now than those on record."""
        attempts, found = self.attempts(wildcards), _outcome(REMEDY, wildcards)
        now = remedy_job.fingerprint(code, attempts)
        if found is not None:
            if self._concerned(wildcards, attempts, limits):
                return fingerprint.after(found.due, now)
            if remedy_job.code_of(found.fingerprint) == code:
                now = found.fingerprint
        return fingerprint.due(_status(REMEDY, wildcards), now, retry)

    @staticmethod
    def _concerned(wildcards, attempts: Sequence[Attempt], limits: Mapping[str, float]) -> bool:
        """Whether other attempts would be made now than those in the report of a cell, or under another
        limit that one of them reached."""
        asked = _outcome(ASKED, wildcards)
        if asked is None or not asked.is_remediable or not (report := _report(wildcards)):
            return False
        tried = [one["attempt"] for one in report["tried"]]
        wanted = remedy_job.wanted(attempts, asked.reason)
        now = [remedy_job.table_digest([attempt]) for attempt in wanted]
        if report["name"] is not None:  # what comes after the one that works is not tried
            return now[: len(tried)] != tried
        reached = {_LIMITED[one["reason"]] for one in report["tried"] if one["reason"] in _LIMITED}
        moved = any(limits[one] != report["limits"][one] for one in reached & limits.keys())
        return now != tried or moved


def _module(wildcards) -> Cell:
    given = {axis: getattr(wildcards, axis) for axis in ("model", "frontend", "target")}
    return Cell.of(Kind.IREE, **given).to(Kind.MODULE)


def program(model: str, frontend: str) -> Cell:
    return Cell.of(Kind.PROGRAM, model=model, frontend=frontend)


def _status(stage: Stage, wildcards) -> str:
    return stage.path(_module(wildcards), STATUS)


def _recorded(stage: Stage, wildcards) -> Recorded | None:
    """What is recorded of a stage of a cell; None if there is nothing that can be read."""
    try:
        return recorded.outcome_of(_status(stage, wildcards))
    except ValueError:
        return None


def _outcome(stage: Stage, wildcards) -> Outcome | None:
    found = _recorded(stage, wildcards)
    return found.outcome if found else None


def _compiled_as_asked(wildcards) -> bool:
    found = _outcome(ASKED, wildcards)
    return found is not None and found.status == outcome.OK


def _report(wildcards) -> Mapping[str, Any]:
    """The report of the remedies of a cell; {} if there is none. One that is not whole is made again anyway."""
    found = _recorded(REMEDY, wildcards)
    if found is None or not found.whole:
        return {}
    return atomic.read_json(REMEDY.path(_module(wildcards), REPORT))
