"""A results folder as stages leave it, with the outcomes that a test chooses."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from scripts.lib.artifacts.tensors import Signature
from scripts.lib.config import stages
from scripts.lib.config.cell import Cell, Kind
from scripts.lib.config.entries import Baseline, Frontend, Model, Target
from scripts.lib.config.matrix import Matrix
from scripts.lib.config.stage import STATUS, Stage
from scripts.lib.config.stages import status_path
from scripts.lib.core import checkout, process
from scripts.lib.supervision import outcome, supervise
from scripts.lib.supervision.job import Job
from scripts.lib.supervision.outcome import Outcome, Usage
from scripts.lib.timing.latency import HostLoad, Latency
from scripts.lib.timing.measurement import Measurement, Run, Verification

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
    measure={"rounds": 1},
    limits={stage: {"timeout_s": 1, "memory_mb": 1} for stage in stages.limits()},
    expect={},
)
ARTIFACTS = {
    "reference": ("signature.json",),
    "gradients": ("golden.npz", "signature.json"),
}
"""Of the stages of which the aggregate reads more than it waits for."""
LATENCY_MS = {"llvm-cpu": (4.0, 5.0, 6.0), "vulkan": (2.0, 2.0), "eager": (9.0, 10.0, 11.0)}
OTHER_MS = (19.0, 20.0, 21.0)


@dataclasses.dataclass
class ResultsTree:
    """Writes results/ below the working folder; what the matrix says to skip is skipped."""

    matrix: Matrix = MATRIX

    def write(self, endings: Mapping[StageCell, Outcome] | None = None) -> None:
        """End each stage of each cell as `endings` says, or well; skip what that blocks."""
        for stage, cell, upstream, artifacts in self._stages():
            job = Job(
                stage=stage,
                cell=cell,
                status_path=Path(status_path(stage, cell)),
                log_path=Path(f"results/{stage}/{cell}/log.txt"),
                command=["python", "-m", f"scripts.{stage}"],
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
                    self.measure(path, failed=True)

    def measure(self, path: Path, failed: bool = False, **changes) -> None:
        """Write a measurement; its folders say of which target or baseline."""
        of_baseline = path.parts[1].startswith("baseline")
        name = path.parts[-3] if of_baseline else path.parts[-2]
        on_cpu = name != "vulkan"
        values = LATENCY_MS.get(name, OTHER_MS)
        latency = None if failed else Latency(values, values, 7)
        runs = (Run(0.03), *(Run(ms * 7e-3, 7) for ms in values))
        measured = Measurement(
            device="local-task" if on_cpu else "vulkan",
            device_name="A CPU" if on_cpu else "A GPU",
            threads=4 if on_cpu else None,
            verification=Verification("FAIL" if failed else "PASS", "", 0.5, 0.25, 1e-7, 1e-3),
            load_ms=3.0,
            first_call_ms=30.0,
            latency=latency,
            host=None if failed else HostLoad(0.0, 0.0),
            runs=runs if of_baseline and not failed else (),
            max_rss_mb=None if failed else 200.0,
            versions={"torch": "2.0"} if of_baseline else {"iree": "3.0"},
        )
        dataclasses.replace(measured, **changes).write(path)

    def _make(self, path: Path) -> None:
        if path.name == "measurement.json":
            self.measure(path)
        elif path.name == "signature.json":
            Signature("m", "f32", 1, (), (), (), {}, {}, "2.0", True, 1e-7, True).write(path)
        elif path.name == "golden.npz":
            path.write_text("golden")
        elif "export" in path.parts:
            report = {"export_s": 0.5, "frontend_version": "1", "rewrites": []}
            path.write_text(json.dumps(report))
        else:
            numbers = {"compile_s": 2.0, "vmfb_bytes": 1234567890, "dispatch_count": 12, "max_rss_mb": 300.5}  # fmt: skip
            path.write_text(json.dumps(numbers))

    def _skip(self, stage: str, cell: str) -> str:
        skippable = [s.folder for s in stages.STAGES.values() if s.skipped == "cell"]
        return self.matrix.override(cell).skip if stage in skippable else ""

    def _stages(self) -> Iterator[tuple[str, str, list[StageCell], list[str]]]:
        """(stage, cell, upstream, artifacts), each after what it stands on."""
        for env in ("torch-mlir", "iree"):
            yield "env", env, [], []
        wanted = [made for row in self.matrix.rows() for made in self._of_row(row)]
        if "train" in self.matrix.tests:
            models = self.matrix.of_kind(Kind.MODEL)
            wanted = [made for m in models for made in stages.chain("gradients", m)] + wanted
        for stage, cell in dict.fromkeys(wanted):
            files = ARTIFACTS.get(stage.name) or [f for f in stage.aggregated if f != STATUS]
            env = ("env", stage.env or "torch-mlir")
            yield stage.folder, str(cell), [env, *self._before(stage, cell)], list(files)

    def _of_row(self, row: Cell) -> list[tuple[Stage, Cell]]:
        return self.matrix.chain(row) + self.matrix.second_round(row)

    def _before(self, stage: Stage, cell: Cell) -> list[StageCell]:
        """The stage that a cell of a stage comes after."""
        if not stage.after:
            return []
        if stage.name == "baseline" and cell["test"] == "train":
            return [("gradients", cell["model"])]
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
