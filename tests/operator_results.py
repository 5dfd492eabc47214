"""Writes the files of the stages of operator problems, as the stages do, with chosen endings."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.lib.batch import outcomes
from scripts.lib.batch.outcomes import Line
from scripts.lib.config.cell import Cell
from scripts.lib.config.entries import Baseline, Frontend, Operators, Target
from scripts.lib.config.matrix import Matrix
from scripts.lib.config.stage import OUTCOMES, Stage
from scripts.lib.config.stages import status_path
from scripts.lib.operators.problem import Facts, Problem
from scripts.lib.supervision import outcome
from scripts.lib.supervision.outcome import Outcome, Usage
from scripts.lib.timing.latency import HostLoad, Latency
from scripts.lib.timing.measurement import Measurement, Verification

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

    `endings`: of a problem that fails, by "<stage> <cell>: <problem>". `jobs`: of a batch whose job
    fails itself, by "<stage> <cell>". `answers`: changes of the results of a problem, by the same
    names as `endings`.
    """

    matrix: Matrix
    problems: Sequence[Problem] = PROBLEMS
    endings: Mapping[str, Ending] = dataclasses.field(default_factory=dict)
    jobs: Mapping[str, Ending] = dataclasses.field(default_factory=dict)
    answers: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    def write(self) -> None:
        """Write the problems, and the files of all stages that are not there."""
        listed = Path("results/operators/batches/0.jsonl")
        listed.parent.mkdir(parents=True, exist_ok=True)
        listed.write_text("".join(json.dumps(p.to_json()) + "\n" for p in self.problems))
        chains = [self.matrix.chain(row) for row in self.matrix.operators.rows()]
        for chain in chains:
            for number, (stage, cell) in enumerate(chain):
                if not Path(status_path(stage.folder, cell)).exists():
                    self._write(stage, cell, chain[:number])

    def _write(self, stage: Stage, cell: Cell, before: Sequence[tuple[Stage, Cell]]) -> None:
        log = f"results/{stage.folder}/{cell}/log.txt"
        status, *why = self.jobs.get(f"{stage.folder} {cell}", ("ok",))
        job = Outcome(status, stage.folder, str(cell), *why, log=log, fingerprint="c0de")
        path = Path(stage.path(cell, OUTCOMES))
        path.parent.mkdir(parents=True)
        lines = [self._line(stage, cell, problem, before) for problem in self.problems]
        if status == outcome.OK:
            outcomes.write(path, lines)
        else:
            path.write_text("")
        outcome.write(status_path(stage.folder, cell), job, Usage(1.0, 1.0))

    def _line(
        self, stage: Stage, cell: Cell, of: Problem, before: Sequence[tuple[Stage, Cell]]
    ) -> Line:
        name = f"{cell}: {of.name}"
        made = {"log": f"results/{stage.folder}/{cell}/logs/{of.name}.txt", "fingerprint": "c0de"}
        for earlier, at in before:
            key = f"{earlier.folder} {at}: {of.name}"
            if key in self.endings or f"{earlier.folder} {at}" in self.jobs:
                _, reason, detail = self.endings.get(key) or self.jobs[f"{earlier.folder} {at}"]
                skipped = Outcome("skipped", stage.folder, name, reason, detail, key, **made)
                return Line(of.name, skipped)
        key = f"{stage.folder} {name}"
        status, *why = self.endings.get(key, ("ok",))
        result = _result(stage, cell, wrong="wrong-result" in why) if status == "ok" or "wrong-result" in why else {}  # fmt: skip
        return Line(
            of.name,
            Outcome(status, stage.folder, name, *why, **made),
            0.5,
            result | self.answers.get(key, {}),
        )


def _result(stage: Stage, cell: Cell, wrong: bool) -> dict[str, Any]:
    """Return what a stage returns for a problem."""
    match stage.name:
        case "operator_reference":
            outputs = [{"shape": [2], "dtype": "f32"}]
            return {"marks": [], "weak": [], "weak_backendbench": [], "bytes": 4_000_000, "flops": 16_000_000, "outputs": outputs, "deterministic": True}  # fmt: skip
        case "operator_export":
            return {"program_bytes": 100, "rewrites": []}
        case "operator_compile":
            return {"module": "m.vmfb", "function": "program_0", "seconds": 0.1, "together": 3, "cached": False, "vmfb_bytes": 10}  # fmt: skip
    by_axis = cell.by_axis()
    of = by_axis.get("frontend") or by_axis["baseline"]
    measured = Measurement(
        device="local-task",
        device_name="A CPU",
        threads=2,
        verification=Verification("FAIL" if wrong else "PASS", "", 0.5, 0.25, 1e-7, 1e-3),
        load_ms=1.0,
        first_call_ms=3.0,
        latency=None if wrong else Latency((MS[of],) * 3, (), 10),
        host=None if wrong else HostLoad(0.0, 0.0),
        versions={"torch": "2.0"} if of == "eager" else {"iree": "3.0"},
    )
    more = {"backendbench_correct": not wrong, "max_abs_error": 0.5, "max_rel_error": 0.1, "host_overhead_ms": 0.5}  # fmt: skip
    return dataclasses.asdict(measured) | more
