"""Writes the files of the stages of operator problems, as the stages do, with chosen endings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.config.cell import Cell
from scripts.config.entries import Baseline, Frontend, Target
from scripts.config.rows import Matrix
from scripts.config.stages import OUTCOMES, STAGES, Stage, status_path
from scripts.measure.timing.group_timing import GroupTiming, MemberTiming, PartTiming
from scripts.measure.verify.verification import Verification, Verified
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome, ProblemEnd, Usage
from scripts.tools.operators.operators_plan import Operators
from scripts.tools.operators.problems.problem import Facts, Problem

ADD = Problem("aten.add.Tensor", "((T([4], f32), T([4], f32)), {})", 10, ("bert", "gpt"), calls=(6, 4))  # fmt: skip
MM = Problem("aten.mm.default", "((T([2, 4], f32), T([4, 2], f32)), {})", 3, ("bert",), calls=(3,))
MM_16 = Problem("aten.mm.default", "((T([2, 4], f16), T([4, 2], f16)), {})", 100, ("gpt",), calls=(100,))  # fmt: skip
PROBLEMS = (ADD, MM, MM_16)
FACTS = Facts(True, True, (), False, 0.5, 1.1, True)

OPERATORS = Operators(
    frontends={
        "torch": Frontend("torch", "torch_mlir", "torch-mlir", {"dialect": "torch"}),
        "xla": Frontend("xla", "torch_xla", "torch-xla"),
    },
    targets={
        "llvm-cpu": Target("llvm-cpu", "llvm-cpu", "host", "O3", ("--x",), "local-task"),
        "cuda": Target("cuda", "cuda", "sm_80", "O2", (), "cuda"),
    },
    baselines={"eager": Baseline("eager", "eager", "cpu", "torch-mlir")},
    compile_only=("cuda",),
)
MS = {"torch": 1.0, "xla": 4.0, "eager": 2.0}
"""Latency of every problem, by frontend or baseline."""

Ending = tuple[str, str, str]
"""Status, reason and detail."""


@dataclasses.dataclass
class Tree:
    """The results of some problems in one batch.

    `endings`: of a problem that fails, by "<stage> <cell>: <problem>"; of the timing, with the cell of the member. `jobs`: of a batch whose job
    fails itself, by "<stage> <cell>". `answers`: changes of the results of a problem, by the same
    names as `endings`. `empty_ms`: the time of a call that computes nothing, by problem.
    """

    matrix: Matrix
    problems: Sequence[Problem] = PROBLEMS
    endings: Mapping[str, Ending] = dataclasses.field(default_factory=dict)
    jobs: Mapping[str, Ending] = dataclasses.field(default_factory=dict)
    answers: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    empty_ms: Mapping[str, float | None] = dataclasses.field(default_factory=dict)

    def write(self) -> None:
        """Write the problems, and the files of all stages that are not there."""
        listed = Path("results/operators/batches/0.jsonl")
        listed.parent.mkdir(parents=True, exist_ok=True)
        listed.write_text("".join(problem.line() for problem in self.problems))
        chains = [self.matrix.chain(row) for row in self.matrix.parts["operators"].rows()]
        for chain in chains:
            for number, (stage, cell) in enumerate(chain):
                if not Path(status_path(stage.folder, cell)).exists():
                    self._write(stage, cell, [self._line(stage, cell, p, chain[:number]) for p in self.problems])  # fmt: skip
        for group, rows in self.matrix.parts["operators"].groups().items():
            stage = STAGES["operator_time"]
            if not Path(status_path(stage.folder, group)).exists():
                self._write(stage, group, [self._timing(group, rows, p) for p in self.problems])

    def _write(self, stage: Stage, cell: Cell, lines: Sequence[ProblemEnd]) -> None:
        log = f"results/{stage.folder}/{cell}/log.txt"
        status, *why = self.jobs.get(f"{stage.folder} {cell}", ("ok",))
        job = Outcome(status, stage.folder, str(cell), *why, log=log, fingerprint="c0de")
        path = Path(stage.path(cell, OUTCOMES))
        path.parent.mkdir(parents=True)
        if status == outcome.OK:
            outcome.write_problem_ends(path, lines)
        else:
            path.write_text("")
        outcome.write(status_path(stage.folder, cell), job, Usage(1.0, 1.0))

    def _line(
        self, stage: Stage, cell: Cell, of: Problem, before: Sequence[tuple[Stage, Cell]]
    ) -> ProblemEnd:
        name = f"{cell}: {of.name}"
        made = {"log": f"results/{stage.folder}/{cell}/logs/{of.name}.txt", "fingerprint": "c0de"}
        for earlier, at in before:
            key = f"{earlier.folder} {at}: {of.name}"
            if key in self.endings or f"{earlier.folder} {at}" in self.jobs:
                _, reason, detail = self.endings.get(key) or self.jobs[f"{earlier.folder} {at}"]
                skipped = Outcome("skipped", stage.folder, name, reason, detail, key, **made)
                return ProblemEnd(of.name, skipped)
        key = f"{stage.folder} {name}"
        status, *why = self.endings.get(key, ("ok",))
        result = _result(stage, cell, wrong="wrong-result" in why) if status == "ok" or "wrong-result" in why else {}  # fmt: skip
        return ProblemEnd(
            of.name,
            Outcome(status, stage.folder, name, *why, **made),
            0.5,
            result | self.answers.get(key, {}),
        )

    def _timing(self, group: Cell, rows: Sequence[Cell], of: Problem) -> ProblemEnd:
        """The line of the timing of a problem: its rows that are verified."""
        members = {}
        for row in rows:
            verified = outcome.read_problem_ends_if_whole(
                self.matrix.chain(row)[-1][0].path(row, OUTCOMES)
            )
            if of.name in verified and verified[of.name].outcome.status == outcome.OK:
                key = f"operator_time {row}: {of.name}"
                ms = MS[row.frontend or row.baseline]
                members[str(row)] = MemberTiming(*self.endings[key]) if key in self.endings else MemberTiming(values_ms=(ms,) * 5, anchor_ms=(MS["eager"],) * 5, turns=8, calls=80, p50_ms=ms)  # fmt: skip
        timing = GroupTiming(1e9, "{}", "", members, (PartTiming(4, (0, 1, 2, 3)),))
        first = next((one for one in members.values() if one.status != outcome.OK), MemberTiming())
        ended = Outcome(first.status, "operator_time", f"{group}: {of.name}", first.reason, first.detail, fingerprint="c0de", log=f"results/operator_time/{group}/log.txt")  # fmt: skip
        empty = self.empty_ms.get(of.name, 0.5)
        return ProblemEnd(of.name, ended, 0.5, {"timing": dataclasses.asdict(timing), "empty_ms": dict.fromkeys(members, empty)})  # fmt: skip


def _result(stage: Stage, cell: Cell, wrong: bool) -> dict[str, Any]:
    """Return what a stage returns for a problem."""
    match stage.name:
        case "operator_reference":
            outputs = [{"shape": [2], "dtype": "f32"}]
            return {"marks": [], "weak": [], "weak_backendbench": [], "bytes": 4_000_000, "flops": 16_000_000, "outputs": outputs, "deterministic": True}  # fmt: skip
        case "operator_export":
            return {"program_bytes": 100, "rewrites": []}
        case "operator_compile":
            return {"module": "m.vmfb", "function": "main", "seconds": 0.1, "cached": False, "vmfb_bytes": 10}  # fmt: skip
    of = cell.frontend or cell.baseline
    measured = Verified(
        device="local-task",
        device_name="A CPU",
        threads=2,
        verification=Verification("FAIL" if wrong else "PASS", "", 0.5, 0.25, 1e-7, 1e-3),
        load_ms=1.0,
        first_call_ms=3.0,
        versions={"torch": "2.0"} if of == "eager" else {"iree": "3.0"},
    )
    more = {"backendbench_correct": not wrong, "max_abs_error": 0.5, "max_rel_error": 0.1}
    return dataclasses.asdict(measured) | more
