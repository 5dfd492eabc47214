"""What a reproducer is of: an IREE cell, the stage that failed, and the files that it needs."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from scripts.core.machine import physical_cores
from scripts.features.reproduce.reduction.signature import normalised
from scripts.iree import added_flags, tuning_spec
from scripts.iree.backends import BACKENDS, compile_flags, renamed
from scripts.matrix import stages, training
from scripts.matrix.cell import Kind
from scripts.records.results_file import Record, cell_of
from scripts.supervise import outcome

COMPILE, VERIFY, TIME = "compile", "verify", "time"
WRONG_RESULT = "wrong-result"
"""The reason of failures that only show with the model's own weights."""


class NoCase(Exception):
    """There is nothing to make a reproducer of. Says why, and what to do."""


@dataclass(frozen=True)
class Case:
    """A cell of which a reproducer is made.

    `stage`: COMPILE if its compilation failed, TIME if it is verified and ended when it was timed, else VERIFY. `status`, `reason`, `detail`: how that stage ended.
    `flags`: of iree-compile; `right_flags`: those of the backend at O0, without the flags of the target. `files`: the artifacts that the tools read, by the names of their stages. `threads`: None
    on other devices than CPUs. `tol`: absolute and relative tolerance of the verification. `compares_values`: whether golden results are values of outputs; those of a training step
    are changes.
    """

    cell: str
    stage: str
    status: str
    reason: str
    detail: str
    flags: tuple[str, ...]
    right_flags: tuple[str, ...]
    files: Mapping[str, Path]
    log: Path
    device: str
    threads: int | None
    tol: float | None
    latency_ms: float | None
    versions: Mapping[str, str | None]
    exporter: str
    dialect: str
    compares_values: bool

    @property
    def exported(self) -> str:
        """The cell of its program."""
        return self.cell.rpartition("/")[0]

    @property
    def program_path(self) -> str:
        """The path of the program as logs and messages have it."""
        return stages.STAGES["export"].path(self.exported, "program.mlir")

    @property
    def needs_weights(self) -> bool:
        """Whether the failure depends on the values of the weights."""
        return self.reason == WRONG_RESULT

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.cell.replace("/", "__")


def of(root: Path, record: Record) -> Case:
    """The case of a record; `root`: the folder that has results/. Raises NoCase."""
    data = record.data
    cell = cell_of(data)
    if cell.kind is not Kind.IREE:
        raise NoCase(
            f"{cell} is a baseline; a reproducer is of an IREE cell, model/frontend/target"
        )
    experiment = data["experiment"]
    if experiment.get("imported"):
        raise NoCase(f"{cell} was measured on another machine; make a reproducer of it there")
    asked = _ended(root, COMPILE, str(cell.to(Kind.MODULE)))
    ended = asked if asked.status != outcome.OK else _run(root, str(cell), data)
    if ended.status == outcome.SKIPPED:
        raise NoCase(f"{cell} ended before its compilation: {ended.blocked_by or ended.detail}")
    test = training.test(cell["frontend"])
    if test == training.TRAIN and ended.reason == WRONG_RESULT:
        raise NoCase(
            f"{cell}: a training step with wrong results has no reproducer, because its golden results are changes of "
            f"weights and the tools compare values; run the command of its row: vmfbench failed --cell '{cell}'"
        )
    files = {
        "program": root / stages.STAGES["export"].path(cell.to(Kind.PROGRAM), "program.mlir"),
        **{
            name: root / stages.STAGES[training.REFERENCES[test]].path(cell["model"], name)
            for name in ("weights.irpa", "inputs.npz", "golden.npz", "signature.json")
        },
    }
    given = tuple(experiment["flags"])
    if of_target := tuning_spec.named(given):
        files[tuning_spec.COPY] = root / of_target
        # Absolute, because the reduction compiles in other folders.
        given = tuple(flag.replace(str(of_target), str(root / of_target)) for flag in given)
    _require(str(cell), files)
    backend, arch = experiment["backend"], experiment["arch"]
    release = data["versions"].get("iree") or ""
    flags = renamed(compile_flags(backend, arch, experiment["opt_level"], given), release)
    added = added_flags.of(files["program"], given)
    return Case(
        cell=str(cell),
        stage=ended.stage,
        status=ended.status,
        reason=ended.reason,
        detail=ended.detail,
        flags=(*flags, *added),
        right_flags=(*renamed(compile_flags(backend, arch, "O0", ()), release), *added),
        files=files,
        log=root / ended.log,
        device=experiment["device_uri"],
        threads=_threads(backend, ended, data),
        tol=data["verification"].get("tol"),
        latency_ms=(data["latency"] or {}).get("ms"),
        versions=data["versions"],
        exporter=experiment["exporter"],
        dialect=experiment["exporter_options"].get("dialect", "stablehlo"),
        compares_values=test != training.TRAIN,
    )


def _threads(backend: str, ended: outcome.Outcome, data: Mapping[str, Any]) -> int | None:
    """The threads of a verification on a CPU, also of one that has failed; None on other devices."""
    if BACKENDS[backend].device_kind != "cpu":
        return None
    words = shlex.split(ended.command)
    given = [int(value) for option, value in pairwise(words) if option == "--threads"]
    return data["run"]["threads"] or next(iter(given), None) or physical_cores()


def _require(cell: str, files: Mapping[str, Path]) -> None:
    """Raise NoCase if a file does not exist or is empty."""
    missing = [
        str(path) for path in files.values() if not path.is_file() or not path.stat().st_size
    ]
    if missing:
        raise NoCase(
            f"{cell}: no {', '.join(missing)}; run it again: snakemake --cores 8 results/latency.csv"
        )


def _run(root: Path, cell: str, data: Mapping[str, Any]) -> outcome.Outcome:
    """How the verification ended, or the timing after it, if the process of the cell ended in that."""
    verified, last = _ended(root, VERIFY, cell), data["outcome"]
    if verified.status != outcome.OK or last["stage"] != TIME or last["status"] == outcome.OK:
        return verified
    same = {key: last[key] for key in ("stage", "status", "reason", "detail", "log")}
    return dataclasses.replace(verified, **same)


def _ended(root: Path, stage: str, cell: str) -> outcome.Outcome:
    return outcome.read_or_damaged(root / stages.status_path(stage, cell))


def group(case: Case) -> tuple[str, ...]:
    """What failures of one group have in common: stage, reason, and the message without names and numbers."""
    return case.stage, case.reason, normalised(case.detail)
