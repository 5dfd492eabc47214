"""Fault injection for batches: whatever a task does to its worker does not affect the others."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from scripts.core import process
from scripts.core.requests import StageRequest
from scripts.features.operators.batch.host import Host
from scripts.supervise.job import Interrupted, Job
from scripts.supervise.outcome import ProblemEnd

ROOT = Path(__file__).parents[2]
WORKER = """
import ctypes, os, signal, sys, time

from pathlib import Path
from scripts.features.operators.batch import batch_worker as worker
from scripts.core import exits, requests

if os.environ.get("BROKEN"):
    raise ImportError("no such package")
handled = []


def handle(payload, facts):
    facts["number"] = payload["number"]
    with open(os.environ["HANDLED"], "a") as file:
        file.write(f"{payload['number']}\\n")
    handled.append(payload["number"])
    print("task", payload["number"], flush=True)
    what = payload["do"]
    if what == "raise":
        raise NotImplementedError("no such operator")
    elif what == "unsupported":
        exits.fail("op not supported", exits.UNSUPPORTED)
    elif what == "wrong":
        facts["error"] = 0.5
        exits.fail("FAIL: far off", exits.WRONG_RESULT)
    elif what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "kill-once" and not Path(os.environ["HANDLED"] + ".killed").exists():
        Path(os.environ["HANDLED"] + ".killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "segfault":
        ctypes.string_at(0)
    elif what == "hang":
        time.sleep(600)
    elif what == "memory":
        held = []
        while True:
            held.append(bytearray(8 << 20))
    elif what == "memory-of-others" and len(handled) > 1:
        held = [bytearray(500 << 20)]
        time.sleep(600)
    elif what == "leave":
        os._exit(0)
    elif what == "not-json":
        facts["latency"] = float("nan")
    elif what == "slow":
        time.sleep(1)
    elif what == "child":
        import subprocess
        subprocess.run(["sh", "-c", "echo from a child; echo error: child failed >&2; exit 1"], check=True)


requests.run(worker.TasksRequest, lambda request, _: worker.serve(request, handle))
"""


@dataclasses.dataclass
class Batch:
    """Runs tasks with given fates in a folder, with the code `fingerprint`."""

    folder: Path
    timeout_s: float = 2.5
    memory_mb: float = 400
    fingerprint: str = "c0de"
    python: str = sys.executable

    def __call__(self, *fates: str) -> list[ProblemEnd]:
        """Return the result of each task, in the order of the fates."""
        tasks = {f"t{n}": {"number": n, "do": fate} for n, fate in enumerate(fates)}
        found = self.run(tasks)
        assert sorted(found) == sorted(tasks)
        assert process.descendants(os.getpid()) == []
        return [found[task] for task in tasks]

    def run(self, tasks: Mapping[str, dict], **more) -> dict[str, ProblemEnd]:
        (self.folder / "package").mkdir(exist_ok=True)
        (self.folder / "package/__init__.py").write_text("")
        (self.folder / "package/worker.py").write_text(WORKER)
        job = Job(
            stage="lower",
            cell="batch",
            status_path=self.folder / "status.json",
            log_path=self.folder / "log.txt",
            command=(),
            request=StageRequest("package.worker", self.python, {}),
            timeout_s=self.timeout_s,
            memory_mb=self.memory_mb,
            fingerprint=self.fingerprint,
            **more,
        )
        found: dict[str, ProblemEnd] = {}

        def take(handled: ProblemEnd) -> None:
            assert handled.problem not in found
            assert handled.outcome.cell == f"batch: {handled.problem}"
            found[handled.problem] = handled

        Host(job, self.folder / "work", take).run(tasks)
        return found

    @property
    def handled(self) -> list[int]:
        """Return the tasks that have begun so far, in order."""
        file = self.folder / "handled"
        return [int(line) for line in file.read_text().split()] if file.exists() else []


@pytest.fixture
def batch(tmp_path, monkeypatch, nothing_is_left) -> Batch:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{tmp_path}")
    monkeypatch.setenv("HANDLED", str(tmp_path / "handled"))
    return Batch(tmp_path)


def status(handled: ProblemEnd) -> tuple[str, str]:
    return handled.outcome.status, handled.outcome.reason


def test_one_worker_handles_tasks_in_order(batch):
    found = batch("ok", "ok", "ok")
    assert batch.handled == [0, 1, 2]
    for number, handled in enumerate(found):
        assert status(handled) == ("ok", "")
        assert handled.result == {"number": number}
        assert handled.seconds >= 0
        assert f"task {number}" in Path(handled.outcome.log).read_text()
        assert "task" in Path(handled.outcome.log).read_text().split()
        assert len(Path(handled.outcome.log).read_text().split()) == 2


def test_a_task_fails_as_a_stage_does(batch):
    raised, unsupported, wrong, not_json, child, ok = batch(
        "raise", "unsupported", "wrong", "not-json", "child", "ok"
    )
    assert status(raised) == ("unsupported", "not-implemented")
    assert raised.outcome.detail == "NotImplementedError: no such operator"
    assert status(unsupported) == ("unsupported", "operator")
    assert unsupported.outcome.detail == "op not supported"
    assert status(wrong) == ("error", "wrong-result")
    assert wrong.result == {"number": 2, "error": 0.5}
    assert status(not_json) == ("error", "ValueError")
    assert (status(child)[0], child.outcome.detail) == ("error", "child failed")
    assert "from a child" in Path(child.outcome.log).read_text()
    assert status(ok) == ("ok", "")
    assert batch.handled == [0, 1, 2, 3, 4, 5]


FATES = {
    "kill": ("crashed", "SIGKILL"),
    "segfault": ("crashed", "SIGSEGV"),
    "hang": ("timeout", "time-limit"),
    "memory": ("oom", "memory-limit"),
    "leave": ("error", "no-outcome"),
}


def test_what_ends_the_worker_is_one_tasks_outcome_and_the_other_60_are_as_undisturbed(batch):
    fates = ["ok"] * 64
    for number, fate in zip((0, 20, 41, 63), ("segfault", "kill", "hang", "memory"), strict=True):
        fates[number] = fate
    found = batch(*fates)
    for number, (fate, handled) in enumerate(zip(fates, found, strict=True)):
        assert status(handled) == FATES.get(fate, ("ok", "")), number
        assert handled.result == ({"number": number} if fate == "ok" else {})
        assert f"task {number}" in Path(handled.outcome.log).read_text()
    assert "Segmentation fault" in found[0].outcome.detail
    assert found[41].outcome.detail == "still running after 2.5 s; last said: task 41"
    assert "in handle" in Path(found[41].outcome.log).read_text(), "where it hung"
    assert "the limit is 400 MiB" in found[63].outcome.detail
    once_more = [20, 41, 63]
    assert sorted(batch.handled) == sorted([*range(64), *once_more])


def test_a_worker_that_leaves_without_a_word_is_an_outcome_too(batch):
    leave, ok = batch("leave", "ok")
    assert status(leave) == FATES["leave"]
    assert status(ok) == ("ok", "")


def test_a_kill_from_outside_costs_a_worker_and_no_task(batch):
    found = batch("ok", "kill-once", "ok")
    assert [status(handled) for handled in found] == [("ok", "")] * 3
    assert batch.handled == [0, 1, 1, 2]


def test_memory_that_other_tasks_have_left_is_not_one_tasks_fault(batch):
    found = batch("ok", "memory-of-others", "ok")
    assert [status(handled) for handled in found] == [("ok", "")] * 3


def test_the_time_limit_is_each_tasks_own(batch):
    found = batch(*["slow"] * 4)
    assert [status(handled) for handled in found] == [("ok", "")] * 4
    assert batch.handled == [0, 1, 2, 3]


def test_a_worker_that_cannot_begin_is_every_tasks_outcome(batch, monkeypatch):
    monkeypatch.setenv("BROKEN", "1")
    for handled in batch("ok", "ok"):
        assert status(handled) == ("error", "ImportError")
        assert handled.outcome.detail == "ImportError: no such package"
        assert Path(handled.outcome.log).is_file()


def test_an_environment_that_is_gone_is_every_tasks_outcome(batch):
    batch.python = str(batch.folder / "no" / "python")
    for handled in batch("ok", "ok"):
        assert handled.outcome.status == "error"
        assert "No such file or directory" in handled.outcome.detail


def test_a_limit_that_was_raised_runs_the_task_again(batch):
    batch.timeout_s = 1
    assert status(batch("hang")[0]) == FATES["hang"]
    count = len(batch.handled)
    batch("hang")
    assert batch.handled[count:] == []
    batch.timeout_s = 1.2
    batch("hang")
    assert batch.handled[count:] == [0]


def test_a_line_that_was_cut_off_loses_its_own_task_alone(batch):
    batch("ok", "ok")
    journal = batch.folder / "work/journal.jsonl"
    journal.write_text(journal.read_text() + '{"end": "half a li')
    count = len(batch.handled)
    assert [status(handled) for handled in batch("ok", "ok", "ok")] == [("ok", "")] * 3
    assert batch.handled[count:] == [2]


def test_a_failed_tasks_command_repeats_it(batch):
    handled = batch("ok", "raise")[1]
    done = subprocess.run(
        handled.outcome.command, shell=True, capture_output=True, text=True, check=True
    )
    assert "NotImplementedError: no such operator" in done.stderr
    ended = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"end"')]
    assert [end["code"] for end in ended] == [1]


def test_an_orphaned_host_stops_and_keeps_what_has_ended(batch):
    with pytest.raises(Interrupted):
        batch.run({"t": {"number": 0, "do": "hang"}}, owner=os.getpid())
