"""A stage on a batch of problems: each has an outcome of its own, whatever the others do to the worker."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.core import process
from scripts.core.requests import StageRequest
from scripts.run import fingerprint
from scripts.stages import check_expectations
from scripts.supervise import outcome, supervise
from scripts.supervise.job import Interrupted, Job
from scripts.supervise.outcome import Outcome, ProblemEnd
from scripts.tools.operators.batch import batch_stage, batch_worker
from scripts.tools.operators.problems.problem import Problem

ROOT = Path(__file__).parents[2]
WORKER = """
import ctypes, os, signal, subprocess, time
from pathlib import Path

from scripts.tools.operators.batch import batch_worker as worker
from scripts.core import exits, requests
from scripts.tools.operators.problems.problem import Problem

if os.environ.get("BROKEN"):
    raise ImportError("no such package")
handled = []


def handle(payload, facts):
    op = payload["op"]
    with open(os.environ["HANDLED"], "a") as file:
        file.write(op + "\\n")
    handled.append(op)
    print("task", op, flush=True)
    killed = Path(os.environ["HANDLED"] + ".killed")
    match op.split(".")[1]:
        case "raise":
            raise NotImplementedError("no such operator")
        case "refused":
            exits.fail("op not supported", exits.UNSUPPORTED)
        case "wrong":
            facts["error"] = 0.5
            exits.fail("FAIL: far off", exits.WRONG_RESULT)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "kill_once" if not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            ctypes.string_at(0)
        case "hang":
            time.sleep(600)
        case "memory":
            held = []
            while True:
                held.append(bytearray(8 << 20))
        case "memory_of_others" if len(handled) > 1:
            held = [bytearray(500 << 20)]
            time.sleep(600)
        case "leave":
            os._exit(0)
        case "not_json":
            facts["latency"] = float("nan")
        case "slow":
            time.sleep(1)
        case "child":
            subprocess.run(["sh", "-c", "echo from a child; echo error: child failed >&2; exit 1"], check=True)
    folder = out / Problem(op, payload["args"]).name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "made.txt").write_text(op + str(payload["before"]))
    facts["files"] = worker.record_files(folder, ["made.txt"])


def main(request, folders):
    global out
    out = folders.results
    worker.serve(request, handle)


requests.run(worker.TasksRequest, main)
"""
CELL = "0/paths"
SKIPPED = Outcome(
    "unsupported", "operator_reference", "0: x", "unsupported", "draws random numbers"
)


def of(op: str) -> Problem:
    """Return the problem of an operator."""
    return Problem(op, "((T([2], f32),), {})")


@dataclasses.dataclass
class Stage:
    """A stage of a batch in a folder, with the code `fingerprint`."""

    folder: Path
    fingerprint: str = "c0de"
    timeout_s: float = 2.5
    pins: str = "pins"
    retry: tuple[str, ...] = ()
    python: str = sys.executable

    def __call__(
        self, *operators: str, before: dict[str, ProblemEnd] | None = None
    ) -> dict[str, ProblemEnd]:
        """Run the stage on a problem per operator; return its outcomes by operator."""
        problems = [of(op) for op in operators]
        above = {}
        if before is not None:
            path = self.folder / "results/operator_reference/0/outcomes.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = [dataclasses.replace(before[p.op], problem=p.name) for p in problems]
            outcome.write_problem_ends(path, lines)
            above = {"operator_reference": path}
        batch = batch_stage.Batch(problems, above, self.pins, self._again)
        supervise.run(self.job, batch_stage.work(batch))
        assert process.descendants(os.getpid()) == []
        assert outcome.read(self.job.status_path).status == "ok"
        found = outcome.read_problem_ends(self.job.artifacts[0])
        assert list(found) == [problem.name for problem in problems]
        return {p.op: found[p.name] for p in problems}

    def _again(self, found: Outcome) -> bool:
        return fingerprint.is_wanted(found, self.fingerprint, self.retry)

    @property
    def own(self) -> Path:
        return self.folder / "results/operator_export" / CELL

    @property
    def job(self) -> Job:
        return Job(
            stage="operator_export",
            cell=CELL,
            status_path=self.own / "status.json",
            log_path=self.own / "log.txt",
            command=(),
            request=StageRequest("package.worker", self.python, {}),
            timeout_s=self.timeout_s,
            memory_mb=400,
            artifacts=(self.own / "outcomes.jsonl",),
            fingerprint=self.fingerprint,
            due=self.fingerprint,
            journal=self.folder / "journal.jsonl",
        )

    def made_before(self, op: str, text: str) -> dict:
        """Write a file of the stage before for a problem; return the list of its files, for its result."""
        folder = self.folder / "results/operator_reference/0" / of(op).name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "golden.npz").write_text(text)
        return batch_worker.record_files(folder, ["golden.npz"])

    def handled(self) -> list[str]:
        """Return the operators that have been handled since the last time, in order."""
        file = self.folder / "handled"
        found = file.read_text().split() if file.exists() else []
        file.unlink(missing_ok=True)
        return found


@pytest.fixture
def run(tmp_path, monkeypatch, nothing_is_left) -> Stage:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{tmp_path}")
    monkeypatch.setenv("HANDLED", str(tmp_path / "handled"))
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").write_text("")
    (tmp_path / "package/worker.py").write_text(WORKER)
    return Stage(tmp_path)


def statuses(found: dict[str, ProblemEnd]) -> dict[str, tuple[str, str]]:
    return {op: (line.outcome.status, line.outcome.reason) for op, line in found.items()}


FATES = {
    "kill": ("crashed", "SIGKILL"),
    "segfault": ("crashed", "SIGSEGV"),
    "hang": ("timeout", "time-limit"),
    "memory": ("oom", "memory-limit"),
    "leave": ("error", "no-outcome"),
    "refused": ("unsupported", "operator"),
    "raise": ("unsupported", "not-implemented"),
    "wrong": ("error", "wrong-result"),
    "not_json": ("error", "ValueError"),
    "child": ("error", "CalledProcessError"),
}


def test_what_a_problem_does_to_its_worker_is_its_own_outcome_and_not_that_of_the_other_60(run):
    fates = {0: "segfault", 20: "kill", 31: "refused", 41: "hang", 63: "memory"}
    operators = [f"aten.{fates.get(n, 'ok')}.n{n}" for n in range(64)]
    found = run(*operators)
    expected = {op: FATES.get(op.split(".")[1], ("ok", "")) for op in operators}
    assert statuses(found) == expected
    for op, line in found.items():
        assert f"task {op}" in Path(line.outcome.log).read_text()
        assert Path(line.outcome.log).read_text().count("task ") == 1
    assert "Segmentation fault" in found[operators[0]].outcome.detail
    hung = found[operators[41]].outcome
    assert hung.detail == f"still running after 2.5 s; last said: task {operators[41]}"
    assert "in handle" in Path(hung.log).read_text(), "where it hung"
    assert "the limit is 400 MiB" in found[operators[63]].outcome.detail
    # Those that were not the first ones of their worker were handled once more.
    assert sorted(run.handled()) == sorted([*operators, *(operators[n] for n in (20, 41, 63))])
    (line,) = map(json.loads, (run.folder / "journal.jsonl").read_text().splitlines())
    assert (line["stage"], line["cell"], line["status"]) == ("operator_export", CELL, "ok")
    assert line["child_seconds"] > run.timeout_s

    # The kill came from outside and says nothing about its problem; the others stand.
    assert statuses(run(*operators)) == expected
    assert set(run.handled()) == {operators[20]}

    # Other code: what failed is handled again, and nothing else.
    run.fingerprint = "fixed"
    again = run(*operators)
    failed = {operators[n] for n in fates}
    assert set(run.handled()) == failed
    assert {op: line.outcome.fingerprint for op, line in again.items()} == {
        op: "fixed" if op in failed else "c0de" for op in operators
    }


def test_a_problem_fails_as_a_stage_does(run):
    fates = ("raise", "wrong", "not_json", "child", "leave", "ok")
    found = run(*(f"aten.{fate}.x" for fate in fates))
    assert statuses(found) == {f"aten.{fate}.x": FATES.get(fate, ("ok", "")) for fate in fates}
    assert found["aten.raise.x"].outcome.detail == "NotImplementedError: no such operator"
    assert found["aten.wrong.x"].result == {"error": 0.5}
    child = found["aten.child.x"].outcome
    assert child.detail == "child failed"
    assert "from a child" in Path(child.log).read_text()


def test_what_comes_from_outside_or_from_problems_before_costs_a_worker_and_no_problem(run):
    found = run("aten.ok.a", "aten.kill_once.x", "aten.memory_of_others.x", "aten.ok.b")
    assert set(statuses(found).values()) == {("ok", "")}


def test_the_time_limit_is_that_of_each_problem(run):
    assert set(statuses(run(*(f"aten.slow.n{n}" for n in range(4)))).values()) == {("ok", "")}
    assert len(run.handled()) == 4


def test_a_worker_that_cannot_begin_is_the_outcome_of_every_problem(run, monkeypatch):
    monkeypatch.setenv("BROKEN", "1")
    for line in run("aten.ok.a", "aten.ok.b").values():
        assert line.outcome.detail == "ImportError: no such package"
        assert Path(line.outcome.log).is_file()
    run.python = str(run.folder / "no" / "python")
    for line in run("aten.ok.a", "aten.ok.b").values():
        assert "No such file or directory" in line.outcome.detail


def test_a_limit_that_was_raised_handles_a_problem_again(run):
    for seconds, handled in ((1, ["aten.hang.x"]), (1, []), (1.2, ["aten.hang.x"])):
        run.timeout_s = seconds
        assert statuses(run("aten.hang.x")) == {"aten.hang.x": FATES["hang"]}
        assert run.handled() == handled


def test_what_ended_before_the_run_was_killed_is_kept(run):
    run("aten.ok.a", "aten.ok.b")
    run.handled()
    journal = run.own / "journal.jsonl"
    first, other = journal.read_text().splitlines()
    journal.write_text(first)
    of_worker = run.own / "worker/journal.jsonl"
    of_worker.write_text(f'{other}\n{{"end": "half a li')
    assert set(statuses(run("aten.ok.a", "aten.ok.b", "aten.ok.c")).values()) == {("ok", "")}
    assert run.handled() == ["aten.ok.c"]


def test_an_outcome_names_its_problem_and_a_command_that_repeats_it(run):
    ended = run("aten.ok.a", "aten.raise.x")["aten.raise.x"].outcome
    cell = f"{CELL}: {of('aten.raise.x').name}"
    assert (ended.stage, ended.cell) == ("operator_export", cell)
    done = subprocess.run(ended.command, shell=True, capture_output=True, text=True, check=True)
    assert "NotImplementedError: no such operator" in done.stderr
    ends = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"end"')]
    assert [end["code"] for end in ends] == [1]


def test_an_orphaned_host_stops(run):
    job = dataclasses.replace(run.job, owner=os.getpid())
    with pytest.raises(Interrupted):
        batch_stage.Host(job, run.own, lambda _: None).run({"t": {"op": "aten.hang.x", "args": ""}})


def test_a_problem_that_failed_before_is_skipped_with_its_first_reason(run):
    files = run.made_before("aten.ok.a", "golden")
    done = ProblemEnd(
        "", Outcome("ok", "operator_reference", "0: y"), 0.1, {"files": files, "seconds": 3}
    )
    lines = {"aten.ok.a": done, "aten.ok.b": ProblemEnd("", SKIPPED)}
    found = run(*lines, before=lines)
    assert run.handled() == ["aten.ok.a"]
    skipped = found["aten.ok.b"].outcome
    assert (skipped.status, skipped.reason, skipped.detail, skipped.blocked_by) == (
        *("skipped", "unsupported", "draws random numbers"),
        "operator_reference 0: x",
    )


def test_a_change_of_what_the_stage_before_made_is_a_change_of_this_problem_alone(run):
    ok = Outcome("ok", "operator_reference", "0: y")
    operators = [f"aten.ok.{n}" for n in range(3)]
    files = {op: run.made_before(op, op) for op in operators}
    lines = {op: ProblemEnd("", ok, 0.1, {"files": files[op]}) for op in operators}
    run(*lines, before=lines)
    run.handled()
    lines["aten.ok.1"] = ProblemEnd("", ok, 0.7, {"files": run.made_before("aten.ok.1", "other")})
    lines["aten.ok.2"] = ProblemEnd("", ok, 0.7, {"files": files["aten.ok.2"], "seconds": 0.7})
    run(*lines, before=lines)
    assert run.handled() == ["aten.ok.1"]


def test_other_problems_of_a_batch_are_not_forgotten(run):
    run("aten.ok.a", "aten.ok.b")
    run("aten.ok.b", "aten.ok.c")
    run.handled()
    assert statuses(run("aten.ok.a", "aten.ok.c")) == dict.fromkeys(
        ("aten.ok.a", "aten.ok.c"), ("ok", "")
    )
    assert run.handled() == []


def test_other_pins_run_everything_again(run):
    run("aten.ok.a", "aten.refused.x")
    run.handled()
    run.pins = "other"
    run("aten.ok.a", "aten.refused.x")
    assert run.handled() == ["aten.ok.a", "aten.refused.x"]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [cut, Path.unlink])
def test_a_problem_whose_files_are_gone_or_cut_is_handled_again(run, damage):
    run("aten.ok.a", "aten.ok.b")
    run.handled()
    damage(run.own / of("aten.ok.a").name / "made.txt")
    run("aten.ok.a", "aten.ok.b")
    assert run.handled() == ["aten.ok.a"]


def test_check_names_a_byte_of_a_file_of_a_problem_that_has_changed(run):
    run("aten.ok.a", "aten.ok.b")
    file = run.own / of("aten.ok.a").name / "made.txt"
    data = file.read_bytes()
    file.write_bytes(data[:-1] + b"?")
    [what] = check_expectations.changed_files(run.folder / "results")
    assert what.startswith(f"{file} is damaged: its {len(data)} bytes are not the ones that were")


@pytest.mark.parametrize(
    ("retry", "again"),
    [
        (("unsupported",), ["aten.refused.x"]),
        (("all",), ["aten.ok.a", "aten.refused.x"]),
        (("oom",), []),
    ],
)
def test_retry_selects_problems_by_their_status(run, retry, again):
    run("aten.ok.a", "aten.refused.x")
    run.handled()
    run.retry = retry
    run("aten.ok.a", "aten.refused.x")
    assert run.handled() == again


def test_an_empty_batch_is_ok(run):
    assert run() == {}
    assert run.job.artifacts[0].read_text() == ""


@pytest.mark.parametrize("damage", [cut, Path.unlink])
def test_a_damaged_file_of_a_problem_is_made_again_by_the_stage_before(run, damage):
    files = run.made_before("aten.ok.a", "golden")
    done = ProblemEnd("", Outcome("ok", "operator_reference", "0: y"), 0.1, {"files": files})
    run("aten.ok.a", before={"aten.ok.a": done})
    above = run.folder / "results/operator_reference/0"
    whole = Outcome("ok", "operator_reference", "0")
    outcome.write(above / "status.json", whole, outcome.Usage(0, 0))
    damage(above / of("aten.ok.a").name / "golden.npz")
    before = {"operator_reference": above / "outcomes.jsonl"}
    batch = batch_stage.Batch([of("aten.ok.a")], before, "", lambda _: False)
    ended = supervise.run(run.job, batch_stage.work(batch))
    assert (ended.status, ended.blocked_by) == ("skipped", "operator_reference 0")
    found = outcome.read(above / "status.json")
    assert found.status == "damaged"
    assert "golden.npz is damaged: it" in found.detail


def test_a_damaged_file_of_the_stage_before_skips_the_batch(run):
    done = ProblemEnd("", Outcome("ok", "operator_reference", "0: y"))
    run("aten.ok.a", before={"aten.ok.a": done})
    above = run.folder / "results/operator_reference/0"
    whole = outcome.Usage(0, 0, {"outcomes.jsonl": supervise.Digest(1, "00000000")})
    outcome.write(above / "status.json", Outcome("ok", "operator_reference", "0"), whole)
    batch = batch_stage.Batch(
        [of("aten.ok.a")], {"operator_reference": above / "outcomes.jsonl"}, "", lambda _: False
    )
    ended = supervise.run(run.job, batch_stage.work(batch))
    assert (ended.status, ended.blocked_by) == ("skipped", "operator_reference 0")
    assert outcome.read(above / "status.json").status == "damaged"
