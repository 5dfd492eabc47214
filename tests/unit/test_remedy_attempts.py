"""supervision.remedies: what is tried where a compilation failed, and what is not repeated."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from scripts.config.compile_tables import Attempt
from scripts.core import atomic
from scripts.core.requests import StageRequest
from scripts.supervise import outcome, supervise
from scripts.supervise.job import Job
from scripts.supervise.outcome import Outcome, Usage
from scripts.tools.variants import remedy_job as remedies

CELL = "m/f/t"
COMPILER = """
import json, sys
of, out = json.load(open(sys.argv[2]))["fields"], sys.argv[4]
with open("calls", "a") as calls:
    calls.write(of["opt_level"] + " ")
if of["opt_level"] not in open(of["program"]).read().split():
    sys.exit("program.mlir:1:1: error: failed to bufferize op")
open(out + "/module.vmfb", "w").write(of["program"] + " at " + of["opt_level"])
json.dump({"compile_s": 1.5}, open(out + "/report.json", "w"))
"""
"""Compiles a program for the levels that the program names."""


def attempt(name: str, level: str, program: str = "mine", **changes) -> Attempt:
    given = {
        "name": name,
        "frontend": program,
        "opt_level": level,
        "flags": (),
        "reasons": ("bufferization",),
        "target": {"opt_level": level},
        "program": f"export/{program}/program.mlir",
        "export": f"export/{program}/status.json",
    }
    return Attempt(**given | changes)


@pytest.fixture
def remedy(tmp_path, monkeypatch):
    """Remedy a compilation that ended as given; returns the outcome, the report and the levels tried."""
    monkeypatch.chdir(tmp_path)
    Path("asked").mkdir()
    Path("compiler.py").write_text(COMPILER)
    folder = Path("results/remedy") / CELL

    def run(attempts, asked="error", reason="bufferization", programs=None, **changes):
        for name, levels in (programs or {"mine": "O0"}).items():
            Path(f"export/{name}").mkdir(parents=True, exist_ok=True)
            Path(f"export/{name}/program.mlir").write_text(levels)
            ended = Outcome("ok" if levels else "error", "export", name, "why", "what")
            outcome.write(f"export/{name}/status.json", ended, Usage(0, 0))
        first = Outcome(asked, "compile", CELL, reason, "what" if reason else "")
        outcome.write("asked/status.json", first, Usage(0, 0))
        Path("calls").write_text("")
        made = [folder / "module.vmfb", folder / "report.json"]
        job = Job(
            stage="remedy",
            cell=CELL,
            status_path=folder / "status.json",
            log_path=folder / "log.txt",
            command=(),
            request=StageRequest("compiler", sys.executable, {}),
            timeout_s=60,
            memory_mb=4000,
            artifacts=made,
            fingerprint="c0de",
            due="c0de~1",
        )  # fmt: skip
        job = dataclasses.replace(job, **changes)
        result = remedies.run(job, Path("asked/status.json"), attempts, "pins")
        assert outcome.read(job.status_path) == result
        return result, atomic.read_json(made[1]), Path("calls").read_text().split()

    return run


MODULE = Path("results/remedy") / CELL / "module.vmfb"
BOTH = [attempt("a", "O2", "other"), attempt("b", "O1"), attempt("c", "O0")]


def test_the_first_attempt_that_works_makes_the_module(remedy):
    result, report, calls = remedy(BOTH, programs={"mine": "O1 O0", "other": "O0"})
    assert (result.status, calls) == ("ok", ["O2", "O1"])
    assert MODULE.read_text() == "export/mine/program.mlir at O1"
    assert (report["name"], report["opt_level"], report["compile"]) == ("b", "O1", {"compile_s": 1.5})  # fmt: skip
    tried = [(one["remedy"], one["status"], one["reason"]) for one in report["tried"]]
    assert tried == [("a", "error", "bufferization"), ("b", "ok", "")]
    assert outcome.read_usage(MODULE).artifacts["module.vmfb"].bytes == MODULE.stat().st_size


def test_what_compiled_as_asked_is_not_tried_again(remedy):
    result, report, calls = remedy(BOTH, asked="ok", reason="")
    assert (result.status, report["name"], report["tried"], calls) == ("ok", None, [], [])
    assert MODULE.read_bytes() == b""


def test_where_nothing_works_the_first_failure_remains(remedy):
    result, report, calls = remedy(BOTH, programs={"mine": "none", "other": "none"})
    assert (result.status, result.reason, result.detail) == ("skipped", "bufferization", "what")
    assert result.blocked_by == f"compile {CELL}"
    assert calls == ["O2", "O1", "O0"]
    assert (report["name"], len(report["tried"])) == (None, 3)
    assert MODULE.read_bytes() == b""


@pytest.mark.parametrize(
    ("asked", "reason"),
    [("error", "bad-flag"), ("skipped", "skip-list"), ("crashed", "SIGKILL"), ("error", "disk-full")],
)  # fmt: skip
def test_failures_that_no_attempt_is_for_are_left_alone(remedy, asked, reason):
    result, _, calls = remedy(BOTH, asked, reason)
    assert (result.status, calls) == ("skipped", [])


def test_an_attempt_whose_program_was_not_exported_is_left_out(remedy):
    result, report, calls = remedy(BOTH, programs={"mine": "O1", "other": ""})
    assert (result.status, calls) == ("ok", ["O1"])
    assert report["tried"][0]["status"] == "skipped"


def test_a_known_hang_is_not_run(remedy):
    hangs = [attempt("a", "O1", hang="it takes an hour"), attempt("c", "O0")]
    _, report, calls = remedy(hangs)
    assert calls == ["O0"]
    assert (report["tried"][0]["reason"], report["tried"][0]["detail"]) == ("known-hang", "it takes an hour")  # fmt: skip


def test_attempts_that_failed_are_repeated_only_if_something_changed(remedy):
    none = {"mine": "none", "other": "none"}
    remedy(BOTH, programs=none)
    assert remedy(BOTH, programs=none)[2] == []
    assert remedy([*BOTH, attempt("d", "O3")], programs=none)[2] == ["O3"]
    assert remedy(BOTH, programs={"mine": "else", "other": "none"})[2] == ["O1", "O0"]
    assert remedy(BOTH, programs={"mine": "else", "other": "none"}, fingerprint="new")[2] == ["O2", "O1", "O0"]  # fmt: skip
    assert remedy(BOTH, programs={"mine": "else", "other": "none"}, fingerprint="new", due="c0de~1+1")[2] == ["O2", "O1", "O0"]  # fmt: skip


def test_a_timeout_is_repeated_under_a_higher_limit_and_a_kill_from_outside_always(
    remedy, monkeypatch
):
    ran: list[float] = []
    monkeypatch.setattr(supervise, "run", lambda job: _ended(job, "timeout", "time-limit", ran))
    late = [attempt("late", "O0")]
    result, report, _ = remedy(late)
    assert (result.status, report["limits"]["timeout"]) == ("skipped", 60)
    for timeout_s in (60, 90, 30):
        remedy(late, timeout_s=timeout_s)
    assert ran == [60, 90]
    monkeypatch.setattr(supervise, "run", lambda job: _ended(job, "crashed", "SIGKILL", ran))
    for _ in range(2):
        result, _, _ = remedy([attempt("killed", "O0")])
        assert result.is_passing, "so that the next run repeats it"
    assert ran == [60, 90, 60, 60]


def _ended(job: Job, status: str, reason: str, ran: list[float]) -> Outcome:
    ran.append(job.timeout_s)
    found = Outcome(status, "remedy", CELL, reason, "what", due=job.due, limit=job.timeout_s)
    outcome.write(job.status_path, found, Usage(0, 0))
    return found


def test_attempts_share_one_time_limit_and_are_repeated_with_more(remedy, monkeypatch):
    ran: list[float] = []
    how = {"b": ("timeout", "time-limit")}
    error = ("error", "bufferization")
    monkeypatch.setattr(supervise, "run", lambda job: _ended(job, *how.get(job.status_path.parent.name, error), ran))  # fmt: skip
    clock = iter(range(0, 10_000, 25))
    monkeypatch.setattr(remedies.time, "monotonic", lambda: next(clock))
    three = [attempt("a", "O3"), attempt("b", "O2"), attempt("c", "O1")]
    _, report, _ = remedy([*three, attempt("d", "O0")])
    assert ran == [60, 35, 10]
    assert report["tried"][-1]["reason"] == "time-limit"
    remedy(three)
    assert ran[3:] == [60], "the failures of the others are known, so the second has all the time"
