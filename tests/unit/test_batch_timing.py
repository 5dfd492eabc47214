"""The timing of a batch: rows of a problem take turns, and one that ends costs no other problem or row its latency."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path

import pytest

from scripts.core import process
from scripts.core.requests import StageRequest
from scripts.run import fingerprint
from scripts.supervise import outcome, supervise
from scripts.supervise.group import GroupRequest
from scripts.supervise.job import Job
from scripts.supervise.outcome import Outcome, ProblemEnd, Usage
from scripts.tools.operators.batch import timing
from scripts.tools.operators.batch.batch_stage import Batch
from scripts.tools.operators.problems.problem import Problem

ROOT = Path(__file__).parents[2]
WORKER = """
import ctypes, os, time
from dataclasses import dataclass

from scripts.tools.operators.batch import batch_worker as worker
from scripts.core import requests
from scripts.measure.timing.worker import Program


@dataclass(frozen=True, kw_only=True)
class Request(worker.TasksRequest):
    name: str


loaded = []


def load(program):
    with open(os.environ["LOADED"], "a") as file:
        file.write(args.name + ":" + program + "\\n")
    loaded.append(program)
    if program == "refused" or (program == "second" and len(loaded) > 1):
        raise RuntimeError(program)
    if program == "segfault":
        return Program(lambda: ctypes.string_at(0))
    seconds = 0.004 if program == "slow" else 0.001
    return Program(lambda: time.sleep(seconds))


def main(request, _):
    global args
    args = request
    worker.serve(request, None, load)


requests.run(Request, main)
"""
MEMBERS = ("0/path/cpu", "0/eager")
RULE = {"budget_s": 0.09, "slice_s": 0.005, "generations": 3}


def of(op: str) -> Problem:
    return Problem(op, "((T([2], f32),), {})")


@dataclasses.dataclass
class Stage:
    """The timing of a batch in a folder, with the code `fingerprint`."""

    folder: Path
    fingerprint: str = "c0de"
    retry: tuple[str, ...] = ()
    rule: dict = dataclasses.field(default_factory=lambda: RULE)

    def __call__(self, **programs: tuple[str, ...]) -> dict[str, ProblemEnd]:
        """Time a problem per operator; `programs`: what each member loads ("": it is not verified)."""
        problems = [of(op) for op in programs]
        members = {}
        for number, member in enumerate(MEMBERS):
            folder = self.folder / "results/operator_verify" / member
            folder.mkdir(parents=True, exist_ok=True)
            members[member] = str(folder)
            lines = [self._verified(of(op).name, row[number]) for op, row in programs.items()]
            outcome.write_problem_ends(folder / "outcomes.jsonl", lines)
            StageRequest("package.worker", sys.executable, {"name": str(number)}).write(folder)
            job = Outcome("ok", "operator_verify", member)
            outcome.write(folder / "status.json", job, Usage(0, 0))
        batch = Batch(problems, {}, "", self._again)
        work = timing.work(GroupRequest(members, self.rule, anchor=MEMBERS[1]), batch)
        # This process adopts what tests of pipelines have left running.
        before = {*process.descendants(os.getpid())}
        ended = supervise.run(self.job, work)
        assert ended.status == "ok", ended
        assert {*process.descendants(os.getpid())} <= before
        found = outcome.read_problem_ends(self.job.artifacts[0])
        return {op: found[of(op).name] for op in programs}

    @staticmethod
    def _verified(name: str, program: str) -> ProblemEnd:
        if not program:
            failed = Outcome("error", "operator_verify", f"0: {name}", "wrong-result", "FAIL")
            return ProblemEnd(name, failed)
        ok = Outcome("ok", "operator_verify", f"0: {name}")
        return ProblemEnd(
            name, ok, 0.1, {"program": program, "empty": "empty", "python": sys.executable}
        )

    def _again(self, found: Outcome) -> bool:
        return fingerprint.is_wanted(found, self.fingerprint, self.retry)

    @property
    def job(self) -> Job:
        own = self.folder / "results/operator_time/0/cpu"
        return Job(
            stage="operator_time",
            cell="0/cpu",
            status_path=own / "status.json",
            log_path=own / "log.txt",
            command=["python"],
            timeout_s=20,
            memory_mb=2000,
            artifacts=(own / "outcomes.jsonl",),
            fingerprint=self.fingerprint,
            due=self.fingerprint,
        )

    def loaded(self) -> set[str]:
        """The programs that have been loaded since the last time."""
        file = self.folder / "loaded"
        found = {line.partition(":")[2] for line in file.read_text().split()} if file.exists() else set()  # fmt: skip
        file.unlink(missing_ok=True)
        return found - {"empty"}


@pytest.fixture
def run(tmp_path, monkeypatch, nothing_is_left) -> Stage:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{tmp_path}")
    monkeypatch.setenv("LOADED", str(tmp_path / "loaded"))
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").write_text("")
    (tmp_path / "package/worker.py").write_text(WORKER)
    return Stage(tmp_path)


def members(line: ProblemEnd) -> dict[str, tuple[str, str]]:
    found = {name: timing.member_outcome(line, name) for name in line.result["timing"]["members"]}
    return {name: (one.status, one.reason) for name, one in found.items()}


def test_the_rows_of_a_problem_are_timed_in_the_same_generations(run):
    line = run(a=("slow", "fast"))["a"]
    assert (line.outcome.status, members(line)) == ("ok", dict.fromkeys(MEMBERS, ("ok", "")))
    path, eager = (line.result["timing"]["members"][name] for name in MEMBERS)
    assert len(path["values_ms"]) == len(path["anchor_ms"]) == 3
    assert path["anchor_ms"] == eager["values_ms"]
    assert min(path["values_ms"]) > 2 * max(eager["values_ms"])
    assert line.result["timing"]["parts"][0]["control"] == MEMBERS[1]
    assert line.result["empty_ms"].keys() == {*MEMBERS}


def test_a_row_that_ends_is_a_failure_of_its_own_and_is_tried_again_alone(run):
    found = run(a=("fast", "fast"), b=("segfault", "fast"), c=("second", "fast"), d=("refused", "fast"))  # fmt: skip
    assert {op: members(line)[MEMBERS[0]] for op, line in found.items()} == {
        "a": ("ok", ""),
        "b": ("crashed", "SIGSEGV"),
        "c": ("ok", ""),  # as the first program of a process
        "d": ("error", "RuntimeError"),
    }
    assert {members(line)[MEMBERS[1]] for line in found.values()} == {("ok", "")}
    assert all(line.result["timing"]["members"][MEMBERS[1]]["values_ms"] for line in found.values())
    assert found["b"].outcome.status == "crashed"


def test_a_row_that_is_not_verified_is_left_out_and_a_problem_without_one_is_skipped(run):
    found = run(a=("", "fast"), b=("", ""))
    assert members(found["a"]) == {MEMBERS[1]: ("ok", "")}
    skipped = found["b"].outcome
    assert (skipped.status, skipped.reason, skipped.blocked_by) == ("skipped", "wrong-result", f"operator_verify 0: {of('b').name}")  # fmt: skip


def test_only_what_has_changed_or_failed_under_other_code_is_timed_again(run):
    programs = {"a": ("fast", "fast"), "b": ("refused", "one")}
    run(**programs)
    run.loaded()
    run(**programs)
    assert run.loaded() == set()
    run(**(programs | {"a": ("slow", "fast")}))
    assert run.loaded() == {"slow", "fast"}
    run.fingerprint = "fixed"
    run(**(programs | {"a": ("slow", "fast")}))
    assert run.loaded() == {"refused", "one"}
    run.rule = RULE | {"generations": 1}
    run(**(programs | {"a": ("slow", "fast")}))
    assert run.loaded() == {"slow", "fast", "refused", "one"}


def test_retry_selects_problems_by_their_status(run):
    programs = {"a": ("fast", "fast"), "b": ("refused", "one")}
    run(**programs)
    run.loaded()
    run.retry = ("error",)
    run(**programs)
    assert run.loaded() == {"refused", "one"}


def test_a_member_that_the_timing_lacks_is_damaged():
    line = ProblemEnd("a", Outcome("ok", "operator_time", "0/cpu: a"), 1.0, json.loads('{"timing": {"members": {}}}'))  # fmt: skip
    assert timing.member_outcome(line, MEMBERS[0]).status == "damaged"
