"""What makes the module of an IREE cell: its compilation, remedies where that fails, and tuning for the rows of results/tuned.csv."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from scripts.config import compile_tables
from scripts.config.cell import Cell, Kind
from scripts.config.compile_tables import Attempt, NamedVariant, Variant
from scripts.config.entries import AS_CONFIGURED, TUNED, TUNED_FRONTENDS, Target
from scripts.config.rows import Matrix
from scripts.config.stages import REPORT, STAGES, STATUS, Stage
from scripts.core import atomic
from scripts.iree import compile_options
from scripts.run import fingerprint
from scripts.run.environments import COMPILER, Environments
from scripts.run.fingerprint import Recorded
from scripts.run.params import target_fields
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome

REMEDY, TUNE = STAGES["remedy"], STAGES["tune"]
ASKED = STAGES[REMEDY.remedies]
_LIMITED = {"time-limit": "timeout", "memory-limit": "oom"}
"""The status of an attempt that reached a limit, by its reason."""
MODULES = {TUNED: "tuned.vmfb", AS_CONFIGURED: "default.vmfb"}
"""The modules that tuning makes, by the frontend of the rows that have them."""
AnyWay = TypeVar("AnyWay", bound=NamedVariant)


class Modules:
    """Answers the rules' questions about what makes the modules of IREE cells.

    Whether a cell has remedies does not depend on outcomes, so its job and the exports that it needs are known before a run.
    Outcomes only keep finished work from being repeated: a measurement of a module that compiled as requested does not
    depend on what remedies there are.
    """

    def __init__(self, matrix: Matrix, environments: Environments) -> None:
        self.matrix, self._environments = matrix, environments

    def attempts(self, cell: Cell) -> list[Attempt]:
        """What is tried where the compilation of a cell fails, in order."""
        target = self._target(cell)
        declared = self.matrix.attempts(cell.frontend, target)
        return [self.completed(attempt, cell.model, target) for attempt in declared]

    def text(self, cell: Cell) -> str:
        """The attempts as text, for the supervisor's command line."""
        return compile_tables.to_text(self.attempts(cell))

    def completed(self, way: AnyWay, model: str, target: Target) -> AnyWay:
        """An attempt or a candidate with the files and the target of its compilation."""
        exported = program(model, way.frontend)
        return msgspec.structs.replace(
            way,
            target=target_fields(target, way.opt_level, way.flags),
            program=STAGES["export"].path(exported, "program.mlir"),
            export=STAGES["export"].path(exported, STATUS),
            hang=self._known_hang(model, target, way.variant),
        )

    def hang(self, cell: Cell) -> str:
        """`--hang <why>` if the compilation that was requested is not run."""
        target = self._target(cell)
        why = self._known_hang(cell.model, target, target.asked(cell.frontend))
        return f"--hang {shlex.quote(why)}" if why else ""

    def _known_hang(self, model: str, target: Target, variant: Variant) -> str:
        """Why a variant is not compiled for a target; "" if it is."""
        iree = self._environments.pins(target.env).get(COMPILER, "") if target.hangs else ""
        for hang in target.hangs:
            if hang.covers(model, target.backend, variant, iree):
                return f"{hang.why} (workflow/remedies.yaml, IREE {iree})"
        return ""

    def _target(self, cell: Cell) -> Target:
        return self.matrix.target(cell.model, cell.frontend, cell.target)

    def exports(self, cell: Cell, file: str) -> list[str]:
        """A file of every export whose program may be compiled for a cell.

        A changed table that does not concern the cell leaves its inputs as they are on record, because
        Snakemake runs a job again whose inputs are others.
        """
        attempts = self.attempts(cell)
        others = list(dict.fromkeys(attempt.frontend for attempt in attempts))
        if not self._concerned(cell, attempts, {}):
            known = self.matrix.frontends | self.matrix.programs
            before = _report(cell).get("frontends", others)
            others = before if set(before) <= known.keys() else others
        return [
            STAGES["export"].path(program(cell.model, frontend), file)
            for frontend in dict.fromkeys([cell.frontend, *others])
        ]

    def uses_remedies(self, cell: Cell) -> bool:
        """Whether the measurement of a cell depends on its remedies.

        The inputs of a measurement do not change if its module compiled as requested. So it is not repeated
        when remedies are switched on or off, or when results are from before there were remedies.
        """
        if is_tuned(cell):
            return False
        if _compiled_as_asked(cell):
            return os.path.exists(_status(REMEDY, cell))
        return bool(self.attempts(cell))

    def may_make_good(self, stage: str, cell: str) -> bool:
        """Whether remedies are tried where a stage (its folder) of a cell (its name) fails."""
        if stage != ASKED.folder:
            return False
        return bool(self.attempts(Cell.parse(cell, Kind.IREE)))

    def files(self, cell: Cell, file: str) -> list[str]:
        """A file of the stages that may have made the module of a cell: the compilation, and its remedies if
        they take part; for a row of results/tuned.csv, its tuning."""
        if is_tuned(cell):
            tuning = Cell.of_kind(Kind.TUNING, model=cell.model, target=cell.target)
            module = MODULES[cell.frontend]
            return [TUNE.path(tuning, module if file == "module.vmfb" else file)]
        makers = [ASKED, REMEDY] if self.uses_remedies(cell) else [ASKED]
        return [stage.path(cell.to(Kind.MODULE), file) for stage in makers]

    def ignores_age(self, cell: Cell) -> bool:
        """Whether a measurement ignores the age of what remedies left: its module was tuned, or compiled as requested and is
        not newer.

        If it is newer, because a run ended between the two stages, that of the remedies runs again. If their outputs are
        `ancient` then, Snakemake 9.27 leaves out the measurement although its module is newer, and the row would keep the
        latency of an earlier module.
        """
        if is_tuned(cell):
            return True
        if not _compiled_as_asked(cell):
            return False
        compiled, left = (_status(stage, cell) for stage in (ASKED, REMEDY))
        return not os.path.exists(left) or os.path.getmtime(compiled) <= os.path.getmtime(left)

    def specs(self, cell: Cell) -> list[str]:
        """The user's tuning spec that the flags of a cell name, as an input: its text is not in the flags."""
        path = compile_options.named_spec(self._target(cell).flags)
        return [str(path)] if path else []

    def due(
        self, cell: Cell, code: str, retry: Collection[str], limits: Mapping[str, float]
    ) -> str:
        """The param `due` of the job (fingerprint.due). A change of the table counts as a change of the
        code for a cell that it concerns: the requested compilation failed, and other attempts would be made
        now than those on record."""
        attempts, before = self.attempts(cell), _outcome(REMEDY, cell)
        now = compile_tables.fingerprint(code, attempts)
        if before is not None:
            if self._concerned(cell, attempts, limits):
                return fingerprint.after(before.due, now)
            if compile_tables.code_of(before.fingerprint) == code:
                now = before.fingerprint
        return fingerprint.due(_status(REMEDY, cell), now, retry)

    @staticmethod
    def _concerned(cell: Cell, attempts: Sequence[Attempt], limits: Mapping[str, float]) -> bool:
        """Whether other attempts would be made now than those in the report of a cell, or under another
        limit that one of them reached."""
        compiled = _outcome(ASKED, cell)
        if compiled is None or not compiled.is_remediable or not (report := _report(cell)):
            return False
        tried = [attempt["attempt"] for attempt in report["tried"]]
        wanted = compile_tables.wanted(attempts, compiled.reason)
        now = [compile_tables.digest([attempt]) for attempt in wanted]
        if report["name"] is not None:  # what comes after the one that works is not tried
            return now[: len(tried)] != tried
        reached = {
            _LIMITED[attempt["reason"]]
            for attempt in report["tried"]
            if attempt["reason"] in _LIMITED
        }
        moved = any(limits[limit] != report["limits"][limit] for limit in reached & limits.keys())
        return now != tried or moved


def is_tuned(cell: Cell) -> bool:
    """Whether a row is a tuned one of results/tuned.csv."""
    return cell.frontend in TUNED_FRONTENDS


def program(model: str, frontend: str) -> Cell:
    return Cell.of_kind(Kind.PROGRAM, model=model, frontend=frontend)


def _status(stage: Stage, cell: Cell) -> str:
    return stage.path(cell.to(Kind.MODULE), STATUS)


def _recorded(stage: Stage, cell: Cell) -> Recorded | None:
    """What is recorded of a stage of a cell; None if there is nothing that can be read."""
    try:
        return fingerprint.recorded_outcome(_status(stage, cell))
    except ValueError:
        return None


def _outcome(stage: Stage, cell: Cell) -> Outcome | None:
    kept = _recorded(stage, cell)
    return kept.outcome if kept else None


def _compiled_as_asked(cell: Cell) -> bool:
    kept = _outcome(ASKED, cell)
    return kept is not None and kept.status == outcome.OK


def _report(cell: Cell) -> Mapping[str, Any]:
    """The report of the remedies of a cell; {} if there is none. One that is not whole is made again anyway."""
    kept = _recorded(REMEDY, cell)
    if kept is None or not kept.whole:
        return {}
    return atomic.read_json(REMEDY.path(cell.to(Kind.MODULE), REPORT))
