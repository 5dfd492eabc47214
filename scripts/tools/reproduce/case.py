"""What a reproducer is of: an IREE cell, the stage that failed, the files that it needs, the requests of its run, and whose fault
a wrong result is likely to be."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.config import stages
from scripts.config.cell import REFERENCES, TRAIN, Cell, Kind
from scripts.core import atomic
from scripts.core.machine import physical_cores
from scripts.frontends.sources import registry
from scripts.iree import compile_options
from scripts.iree.backends import BACKENDS, compile_flags, renamed
from scripts.results.results_file import Record, cell_of
from scripts.run.jobs import REFERENCE_FILES
from scripts.run.recorded import AGAIN, NoCase, Recorded, recorded
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome
from scripts.tools.profile import compile_page
from scripts.tools.profile.profile_files import NoProfile
from scripts.tools.reproduce import issue
from scripts.tools.reproduce.mismatch import COMPARED, O0, SAME, XLA

COMPILE, VERIFY, TIME = "compile", "verify", "time"
WRONG_RESULT = "wrong-result"
"""The reason of failures that only show with the model's own weights."""
MODEL = ("name", "model_file", "options", "load_threads")
"""The fields of a request by which a stage loads its model."""
PASS = "PASS"
LIMIT_S = 300
"""Seconds for the compilation by which another executor is compared."""


@dataclass(frozen=True)
class Owner:
    """The project whose fault a wrong result is likely to be. `evidence`: sentences. `is_program_right`: whether another executor
    computes the right result from the program."""

    name: str
    tracker: str
    evidence: str
    is_program_right: bool = False


@dataclass(frozen=True)
class Case:
    """A cell of which a reproducer is made. `root`: the folder that has results/.

    `ended`: its compilation if that failed, its timing if it is verified and ended when it was timed, else its verification.
    `log`: of that stage. `flags`: of iree-compile; `right_flags`: those of the backend at O0, without the flags of the target;
    `cpu_flags`: those of llvm-cpu at O0. `files`: the artifacts that the tools read, by name. `threads`: None on other devices
    than CPUs. `tol`: absolute and relative tolerance of the verification. `compares_values`: whether golden results are values
    of outputs; those of a training step are changes. `hanging`: the sources of the executables that reach the limits when each
    is compiled alone, by name; empty if `snakemake compile_time` has found none. `golden`: the request of the reference in which
    IREE itself failed at O0, if that is what the case shows: `with_files` makes its files. `owner`: see `with_owner`.
    """

    root: Path
    cell: str
    ended: Outcome
    log: Path
    flags: tuple[str, ...]
    right_flags: tuple[str, ...]
    cpu_flags: tuple[str, ...]
    files: Mapping[str, Path]
    device: str
    threads: int | None
    versions: Mapping[str, str | None]
    exporter: str
    dialect: str = ""
    tol: float | None = None
    latency: Mapping[str, Any] | None = None
    compares_values: bool = False
    hanging: Mapping[str, str] = field(default_factory=dict)
    golden: Recorded | None = None
    owner: Owner | None = None

    @property
    def exported(self) -> Cell:
        """The cell of its program."""
        return Cell.parse(self.cell, Kind.IREE).to(Kind.PROGRAM)

    @property
    def module(self) -> str:
        """The cell of its module."""
        return str(Cell.parse(self.cell, Kind.IREE).to(Kind.MODULE))

    @property
    def compilation(self) -> Recorded:
        """The stage whose environment has its compiler, which may be that of a toolchain. Raises NoCase."""
        return self.golden or recorded(self.root, COMPILE, self.module)

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.cell.replace("/", "__")


def named(records: Iterable[Record], cell: str) -> Record:
    """The record of a cell, by its name. Raises NoCase."""
    by_name = {record["cell"]: record for record in records}
    if cell not in by_name:
        raise NoCase(
            f"no row {cell!r} in results.jsonl; the rows are {', '.join(list(by_name)[:5])} …"
        )
    return by_name[cell]


def case_of(root: Path, record: Record, of_golden: bool = False) -> Case:
    """The case of a record. `of_golden`: also if IREE has failed at O0 while the golden
    results were made. Raises NoCase."""
    data, experiment = record.data, record.data["experiment"]
    cell = cell_of(data)
    if of_golden and (case := _golden_case(root, record, cell)):
        return case
    ended = _failure(root, record, cell)
    program = root / stages.STAGES["export"].path(cell.to(Kind.PROGRAM), "program.mlir")
    of_reference = stages.STAGES[REFERENCES[cell.test]]
    files = {program.name: program} | {
        name: root / of_reference.path(cell.model, name) for name in REFERENCE_FILES.values()
    }
    given = tuple(experiment["flags"])
    if spec := compile_options.named_spec(given):
        files[compile_options.SPEC_COPY] = root / spec
        # Absolute, because the reduction compiles in other folders.
        given = tuple(flag.replace(str(spec), str(root / spec)) for flag in given)
    missing = [
        str(file) for file in files.values() if not file.is_file() or not file.stat().st_size
    ]
    if missing:
        raise NoCase(f"{cell}: no {', '.join(missing)}; run it again: {AGAIN}")
    backend, arch = experiment["backend"], experiment["arch"]
    added = compile_options.flags_for_program(program, given)

    def flags(
        opt_level: str, further: Sequence[str], backend_name: str = backend, arch: str | None = arch
    ) -> tuple[str, ...]:
        plain = compile_flags(backend_name, arch, opt_level, further)
        return (*renamed(plain, data["versions"].get("iree") or ""), *added)

    return Case(
        root=root,
        cell=str(cell),
        ended=ended,
        log=root / ended.log,
        flags=flags(experiment["opt_level"], given),
        right_flags=flags("O0", ()),
        cpu_flags=flags("O0", (), "llvm-cpu", None),
        files=files,
        device=experiment["device_uri"],
        threads=_threads(root, data, cell) if BACKENDS[backend].device_kind == "cpu" else None,
        tol=data["verification"].get("tol"),
        latency=data["latency"],
        versions=data["versions"],
        exporter=experiment["exporter"],
        dialect=experiment["exporter_options"].get("dialect", "stablehlo"),
        compares_values=cell.test != TRAIN,
        hanging=_hanging(root, cell) if is_stopped(ended) else {},
    )


def _golden_case(root: Path, record: Record, cell: Cell) -> Case | None:
    """The case of a program of MLIR whose golden results IREE could not make (frontends/sources/load_mlir.py)."""
    reference = REFERENCES[cell.test]
    ended = _ended(root, reference, cell.model)
    log = root / ended.log
    if cell.kind is not Kind.IREE or ended.status not in outcome.FAILED or not log.is_file():
        return None
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    steps = [line for line in lines if line in (registry.COMPILES, registry.CALLS)]
    if not steps:
        return None
    flags = tuple(compile_flags("llvm-cpu", None, "O0", ()))
    return Case(
        root=root,
        cell=str(cell),
        ended=dataclasses.replace(
            ended, stage=COMPILE if steps[-1] == registry.COMPILES else VERIFY
        ),
        log=log,
        flags=flags,
        right_flags=flags,
        cpu_flags=flags,
        files={},
        device="local-sync",
        threads=1,
        versions=record.data["versions"],
        exporter=record.data["experiment"]["exporter"],
        golden=recorded(root, reference, cell.model),
    )


def with_files(case: Case, folder: Path) -> Case:
    """The case with the files that the tools read, which a case of golden results has not yet, in a folder. Raises NoCase."""
    if case.golden is None:
        return case
    model = case.golden.request.only(*MODEL)
    if case.golden.run("scripts.tools.reproduce.write_program", model, folder):
        raise NoCase(f"{case.cell}: its program was not written; the messages above say why")
    return dataclasses.replace(case, files={path.name: path for path in folder.iterdir()})


def is_stopped(ended: Outcome) -> bool:
    """Whether it is a compilation that did not end by itself, but reached a limit."""
    return ended.stage == COMPILE and ended.status in ("timeout", "oom")


def _hanging(root: Path, cell: Cell) -> Mapping[str, str]:
    try:
        return compile_page.read(root / "results", str(cell)).hanging
    except NoProfile:
        return {}


def _failure(root: Path, record: Record, cell: Cell) -> Outcome:
    """What the case of a cell shows (Case.ended). Raises NoCase if no reproducer can show it."""
    if cell.kind is not Kind.IREE:
        raise NoCase(
            f"{cell} is a baseline; a reproducer is of an IREE cell, model/frontend/target"
        )
    if record.data["experiment"].get("imported"):
        raise NoCase(f"{cell} was measured on another machine; make a reproducer of it there")
    ended = _ended(root, COMPILE, str(cell.to(Kind.MODULE)))
    if ended.status == outcome.OK:
        ended, last = _ended(root, VERIFY, str(cell)), record.data["outcome"]
        if ended.status == outcome.OK and last["stage"] == TIME and last["status"] != outcome.OK:
            same = {key: last[key] for key in ("stage", "status", "reason", "detail", "log")}
            ended = dataclasses.replace(ended, **same)
    if ended.status == outcome.SKIPPED:
        raise NoCase(f"{cell} ended before its compilation: {ended.blocked_by or ended.detail}")
    if cell.test == TRAIN and ended.reason == WRONG_RESULT:
        raise NoCase(
            f"{cell}: a training step with wrong results has no reproducer, because its golden results are changes of "
            f"weights and the tools compare values; run the command of its row: vmfbench failed --cell '{cell}'"
        )
    return ended


def _threads(root: Path, data: Mapping[str, Any], cell: Cell) -> int:
    """The CPU threads of a cell. A verification that has failed has no record of them."""
    if number := data["run"]["threads"]:
        return int(number)
    try:
        threads = recorded(root, VERIFY, str(cell)).request.fields.get("threads")
    except NoCase:  # it has failed before
        threads = None
    return threads or physical_cores()


def _ended(root: Path, stage: str, cell: str) -> Outcome:
    return outcome.read_or_damaged(root / stages.status_path(stage, cell))


# The likely owner of a wrong result: the same program is run by XLA and by IREE at O0, and the rows of the model's other lowering paths
# are looked at.


def with_owner(case: Case, records: Iterable[Record]) -> Case:
    """The case of a wrong result with its likely owner; other cases as they are."""
    if case.ended.reason != WRONG_RESULT or not case.compares_values:
        return case
    cell = Cell.parse(case.cell, Kind.IREE)
    try:
        compared = _compared(case, cell)
    except NoCase as error:
        print(f"note: {case.cell}: not compared with other executors: {error}")
        compared = {}
    return dataclasses.replace(case, owner=likely(case.exporter, compared, _others(records, cell)))


def likely(exporter: str, compared: Mapping[str, Any], others: Mapping[str, bool]) -> Owner:
    """The likely owner. `compared`: what compare_executors has written, {} if nothing. `others`: whether the results of each other lowering
    path of the model are right, by its name."""
    none = {"code": "", "detail": "it was not run"}
    xla, plain = compared.get(XLA, none), compared.get(O0, none)
    right = [path for path, is_right in others.items() if is_right]
    wrong = [path for path, is_right in others.items() if not is_right]
    iree = name, tracker = "IREE", issue.IREE
    tool = issue.TOOLS.get(exporter, iree)
    if xla["code"] == PASS:
        at_o0 = {PASS: ", in what it does beyond O0", "": ""}.get(plain["code"], ", at O0 too")
        said = f"XLA computes the golden result from the same StableHLO, so IREE's compiler is wrong{at_o0}."
    elif xla["code"]:
        name, tracker = tool
        alike = "IREE at O0 and XLA give the same wrong result from the same program" if compared.get(SAME) == PASS else "XLA computes a wrong result from the same StableHLO too"  # fmt: skip
        lowered = "the program of the file, or the golden results that were given with it, are wrong" if tool == iree else f"the program is wrong: {name}'s lowering"  # fmt: skip
        said = f"{alike}, so {lowered}."
    elif plain["code"] == PASS:
        said = "IREE at O0 computes the golden result from the same program, so an optimization of its compiler is wrong."
    elif plain["code"]:
        said = "IREE at O0 computes a wrong result from the same program too"
        if right and tool != iree:
            name, tracker = tool
            said += f", and the model is right by other paths, so {name}'s lowering is likely to be wrong."
        else:
            said += ": whether the program or IREE's compiler is wrong is not known."
    else:
        said = f"The program ran on no other executor (IREE at O0: {plain['detail']})."
    if not xla["code"]:
        said += f" XLA was not compared: {xla['detail']}."
    for text, paths in (("right", right), ("wrong", wrong)):
        said += f" By other paths the model is {text}: {', '.join(paths)}." if paths else ""
    return Owner(name, tracker, said, PASS in (xla["code"], plain["code"]))


def _compared(case: Case, cell: Cell) -> Mapping[str, Any]:
    reference = recorded(case.root, REFERENCES[cell.test], cell.model)
    verified = recorded(case.root, VERIFY, case.cell).request.only("tolerance")
    fields = {key: case.files[name] for key, name in REFERENCE_FILES.items()} | {
        "program": case.files["program.mlir"],
        "flags": case.cpu_flags,
        "limit_s": LIMIT_S,
        **verified,
    }
    with tempfile.TemporaryDirectory(prefix="owner-") as folder:
        if reference.run("scripts.tools.reproduce.compare_executors", fields, Path(folder)):
            raise NoCase("the messages above say why")
        return atomic.read_json(Path(folder, COMPARED))


def _others(records: Iterable[Record], cell: Cell) -> dict[str, bool]:
    """Whether the results of each other lowering path of the model are right, by its name; paths whose targets differ in that are
    left out."""
    codes: dict[str, set[bool]] = {}
    for record in records:
        other = cell_of(record.data)
        is_other = record.is_iree and (other.model, other.test) == (cell.model, cell.test) and other.frontend != cell.frontend  # fmt: skip
        ended = record.data["outcome"]
        if is_other and (ended["status"] == outcome.OK or ended["reason"] == WRONG_RESULT):
            codes.setdefault(other.frontend or "", set()).add(ended["status"] == outcome.OK)
    return {path: right.pop() for path, right in codes.items() if len(right) == 1}
