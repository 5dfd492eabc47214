"""A results folder as stages leave it, with the outcomes that a test chooses."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from scripts.config import stages
from scripts.config.cell import Cell, Kind
from scripts.config.entries import Baseline, Frontend, Model, Target
from scripts.config.rows import Matrix
from scripts.config.stages import STATUS, Stage, status_path
from scripts.core import checkout, process
from scripts.core.tensors import Signature
from scripts.measure.timing.calls import Run
from scripts.measure.timing.group_timing import GroupTiming, MemberTiming, PartTiming
from scripts.measure.verify.verification import Verification, Verified
from scripts.supervise import outcome, supervise
from scripts.supervise.job import Job
from scripts.supervise.outcome import Outcome, Usage

StageCell = tuple[str, str]

MATRIX = Matrix(
    models={
        "conv": Model("conv", "models/conv.py"),
        "tiny": Model("tiny", "/elsewhere/tiny.py", "user", {"batch_size": 4, "dtype": "f16"}),
    },
    frontends={"mlir": Frontend("mlir", "torch_mlir", "torch-mlir", {"dialect": "torch"})},
    targets={
        "llvm-cpu": Target("llvm-cpu", "llvm-cpu", "host", "O3", ("--x",), "local-task"),
        "vulkan": Target("vulkan", "vulkan", "", "O2", (), "vulkan"),
    },
    baselines={"eager": Baseline("eager", "eager", "cpu", "torch-mlir")},
    measure={},
    limits={stage: {"timeout_s": 1, "memory_mb": 1} for stage in stages.limits()},
    expect={},
)
ARTIFACTS = {
    "reference": ("signature.json",),
    "gradients": ("golden.npz", "signature.json"),
}
"""Of the stages of which the aggregate reads more than it waits for."""
LATENCY_MS = {
    "llvm-cpu": (4.0, 5.0, 6.25, 5.0, 5.0),
    "vulkan": (2.0, 2.0),
    "eager": (9.0, 10.0, 100 / 9, 10.0, 10.0),
}
"""Latencies in each generation, by target or baseline: 5, 2 and 10 ms."""
OTHER_MS = (18.0, 20.0, 200 / 9, 20.0, 20.0)
STARTED = 1_790_000_000.0
"""When every group was timed."""


@dataclasses.dataclass
class ResultsTree:
    """Writes results/ below the working folder; what the matrix says to skip is skipped. `values_ms`: the latencies of rows
    that have others than LATENCY_MS, by cell."""

    matrix: Matrix = MATRIX
    values_ms: dict[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)

    def write(self, endings: Mapping[StageCell, Outcome] | None = None) -> None:
        """End each stage of each cell as `endings` says, or well; skip what that blocks."""
        for stage, cell, upstream, artifacts in self._stages():
            job = Job(
                stage=stage,
                cell=cell,
                status_path=Path(status_path(stage, cell)),
                log_path=Path(f"results/{stage}/{cell}/log.txt"),
                command=["python", "-m", f"scripts.stages.{stage}"],
                timeout_s=1,
                memory_mb=1,
                artifacts=[Path(f"results/{stage}/{cell}/{name}") for name in artifacts],
                upstream=[Path(status_path(*above)) for above in upstream],
                skip=self._skip(stage, cell),
            )
            if job.skip or any(outcome.read(path).status != "ok" for path in job.upstream):
                supervise.run(job)  # records it as skipped, and starts nothing
                continue
            ended = (endings or {}).get((stage, cell), Outcome("ok", stage, cell))
            ended = dataclasses.replace(
                ended,
                log=str(job.log_path),
                command=" ".join(job.command),
                fingerprint="c0de",
                due="c0de",
            )
            outcome.write(job.status_path, ended, Usage(1.5, 100.0))
            for path in job.artifacts:
                path.write_text("")
                if ended.status == "ok":
                    self._make(path)
                elif ended.reason == "wrong-result":
                    self.verify(path, failed=True)
        for group, rows in self.matrix.groups().items():
            self.time("time", group, rows, endings)

    def time(
        self,
        stage: str,
        group: Cell,
        rows: Sequence[Cell],
        endings: Mapping[StageCell, Outcome] | None = None,
    ) -> None:
        """Time the rows of a group that are verified. `endings`: of the group, or of rows that leave it."""
        endings = endings or {}
        path = Path(stages.STAGES[stage].path(group, "timing.json"))
        ended = endings.get((stage, str(group)), Outcome("ok", stage, str(group)))
        log, command = str(path.with_name("log.txt")), "python -m scripts.stages.time_group"
        ended = dataclasses.replace(ended, log=log, command=command, fingerprint="c0de", due="c0de")
        outcome.write(path.with_name(STATUS), ended, Usage(1.5, 100.0))
        if ended.status != "ok":
            path.write_text("")
            return
        last = {row: stages.STAGES[stages.LAST[row.kind]].path(row, STATUS) for row in rows}
        verified = [str(row) for row in rows if outcome.read(Path(last[row])).status == "ok"]
        eager = f"{group.model}/eager/{group.test}"
        shared = {str(row): str(row.without("threads")) for row in rows}
        anchor = next((cell for cell in verified if shared[cell] == eager), "")
        values = {
            cell: self.values_ms.get(cell)
            or next((ms for name, ms in LATENCY_MS.items() if name in cell.split("/")), OTHER_MS)
            for cell in verified
        }
        members = {}
        for cell, own in values.items():
            if left := endings.get((stage, cell)):
                members[cell] = MemberTiming(left.status, left.reason, left.detail)
                continue
            members[cell] = MemberTiming(
                values_ms=own,
                anchor_ms=values.get(anchor, ()),
                turns=3 * len(own),
                calls=21,
                p50_ms=own[0],
                peak_rss_mb=200.0,
            )
        counted = tuple(range(max(map(len, values.values()), default=0)))
        parts = (PartTiming(len(counted), counted),)
        GroupTiming(STARTED, "{}", anchor, members, parts).write(path)

    def verify(self, path: Path, failed: bool = False, **changes) -> None:
        """Write a verification; its folders say of which target or baseline."""
        of_baseline = path.parts[1].startswith("baseline")
        name = path.parts[-3] if of_baseline else path.parts[-2]
        on_cpu = name != "vulkan"
        runs = (Run(0.03), Run(0.07, 7)) if of_baseline else (Run(0.03),)
        measured = Verified(
            device="local-task" if on_cpu else "vulkan",
            device_name="A CPU" if on_cpu else "A GPU",
            threads=4 if on_cpu else None,
            verification=Verification("FAIL" if failed else "PASS", "", 0.5, 0.25, 1e-7, 1e-3),
            load_ms=3.0,
            first_call_ms=30.0,
            runs=() if failed else runs,
            max_rss_mb=None if failed else 200.0,
            versions={"torch": "2.0"} if of_baseline else {"iree": "3.0"},
        )
        changed = dataclasses.replace(measured, **changes)
        # Not of the Python that runs the tests.
        versions = {"python": "3.11.7", **changed.versions}
        dataclasses.replace(changed, versions=versions).write(path)

    def _make(self, path: Path) -> None:
        if path.name == "verification.json":
            self.verify(path)
        elif path.name == "signature.json":
            Signature("m", "f32", 1, (), (), (), {}, {}, "2.0", True, 1e-7, True).write(path)
        elif path.name == "golden.npz":
            path.write_text("golden")
        elif "export" in path.parts:
            report = {"export_s": 0.5, "frontend_version": "1", "rewrites": []}
            path.write_text(json.dumps(report))
        else:
            numbers = {"compile_s": 2.0, "cpu_s": 3.5, "vmfb_bytes": 1234567890, "dispatch_count": 12, "transient_bytes": 4096, "constant_bytes": 40, "max_rss_mb": 300.5}  # fmt: skip
            path.write_text(json.dumps(numbers))

    def _skip(self, stage: str, cell: str) -> str:
        skippable = [s.folder for s in stages.STAGES.values() if s.skipped == "cell"]
        return self.matrix.override(cell).skip if stage in skippable else ""

    def _stages(self) -> Iterator[tuple[str, str, list[StageCell], list[str]]]:
        """(stage, cell, upstream, artifacts), each after what it stands on."""
        for env in ("torch-mlir", "iree"):
            yield "env", env, [], []
        wanted = [made for row in self.matrix.rows() for made in self.matrix.chain(row)]
        if "train" in self.matrix.tests:
            models = self.matrix.of_kind(Kind.MODEL)
            wanted = [made for m in models for made in stages.chain("gradients", m)] + wanted
        for stage, cell in dict.fromkeys(wanted):
            files = ARTIFACTS.get(stage.name) or [f for f in stage.aggregated if f != STATUS]
            env = ("env", stage.env or "torch-mlir")
            yield stage.folder, str(cell), [env, *self._before(stage, cell)], list(files)

    def _before(self, stage: Stage, cell: Cell) -> list[StageCell]:
        """The stage that a cell of a stage comes after."""
        if not stage.after:
            return []
        if stage.name == "baseline" and cell.test == "train":
            return [("gradients", cell.model)]
        above = stages.STAGES[stage.after]
        found = [(above.folder, str(cell.to(above.kind)))]
        if self.matrix.runs_program(cell):
            found.append(("export", str(self.matrix.program(cell))))
        return found


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test writes need not outlive a power cut."""
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.fixture
def nothing_is_left() -> Iterator[None]:
    """Kill and reap what a test has started: this process adopts orphans once it has supervised."""
    yield
    process.kill_descendants()


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ResultsTree:
    """A results tree in a separate working folder, which counts as the folder of the checkout."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checkout, "ROOT", tmp_path)
    return ResultsTree()


def ended(status: str, stage: str, cell: str, reason: str = "why", detail: str = "what") -> dict:
    """An ending for ResultsTree.write."""
    return {(stage, cell): Outcome(status, stage, cell, reason, detail)}


@pytest.fixture(name="ended")
def ended_fixture():
    return ended


def job_in(folder: Path, command: Sequence[str], **more: Any) -> Job:
    """A job whose status and log are in a folder. `more`: other values of its fields."""
    values = {"stage": "compile", "cell": "m/f/t", "timeout_s": 20, "memory_mb": 4000} | more
    paths = {"status_path": folder / "status.json", "log_path": folder / "log.txt"}
    return Job(command=command, **paths, **values)


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    """The folder of a Python package `package`, which processes of a test can import beside the project's own."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", f"{checkout.ROOT}:{tmp_path}")
    return folder
