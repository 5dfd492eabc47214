"""worker and members: real processes time calls on request, and whatever one does, its member ends with a reason."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from scripts.measure.timing import worker
from scripts.measure.timing.turns import Group, MemberEnded, Rule
from scripts.measure.timing.worker import CHECK, LOAD, SLICE
from scripts.supervise.job import Interrupted, Job
from scripts.supervise.members import Member, Process, Workers

WORKER = """
import os, sys, time
from scripts.measure.timing import worker

calls = 0

def call():
    global calls
    calls += 1
    if calls == 1:
        {first}
    elif calls > 5:
        {later}
    time.sleep({seconds})

{start}
print("loaded")
worker.serve(worker.Program(call{more}))
"""
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture(params=["forked", "spawned"])
def started(request, tmp_path, package):
    """Starts a worker that runs some Python; all processes are closed in the end."""
    opened = contextlib.ExitStack()

    def start(load_s=30.0, check=lambda: None, env=None, **code) -> Process:
        member = described("one", env, **code)
        made = Process(member, os.getpid(), tmp_path / "server.txt", load_s, check)
        opened.callback(made.close)
        return made

    def described(name="one", env=None, **code) -> Member:
        code = {"first": "pass", "later": "pass", "seconds": 0.001, "start": "", "more": ""} | code
        (tmp_path / "package" / f"{name}.py").write_text(WORKER.format(**code))
        command = (sys.executable, "-m", f"package.{name}")
        log = tmp_path / "members" / f"{name}.txt"
        return Member(name, command, log, request.param == "forked", env)

    start.described = described
    with opened:
        yield start
    assert not running()


def running() -> list[psutil.Process]:
    """The workers that have not ended, and what they have started. (A forked worker has the command of its fork server.)"""
    children = psutil.Process().children(recursive=True)
    alive = [one for one in children if one.status() != psutil.STATUS_ZOMBIE]
    return [
        one
        for one in alive
        if one.ppid() != os.getpid() or "scripts.stages.fork_server" not in one.cmdline()
    ]


def a_slice(calls: int = 5, uncounted: int = 0, seconds: float = 10.0) -> dict:
    return {SLICE: {"calls": calls, "uncounted": uncounted, "seconds": seconds}}


def ended(found: Process, request: dict | None = None, limit_s: float = 20.0) -> MemberEnded:
    with pytest.raises(MemberEnded) as info:
        found.ask(request or a_slice(20), limit_s)
    return info.value


def test_a_worker_times_the_calls_of_a_slice(started):
    found = started(seconds=0.002)
    found.wait_ready()
    answer = found.ask(a_slice(5, 2), 20)
    assert len(answer["each_s"]) == 5
    assert all(0.002 <= spent < 0.5 for spent in answer["each_s"])
    assert 0 <= answer["cpu_s"] < 0.5
    assert answer["compiled"] == 0
    assert found.ask({CHECK: True}, 20)["peak_rss_mb"] > 1
    assert "loaded" in (found._member.log).read_text()
    assert found.tree()[0] in {one.pid for one in running()}
    found.close()
    assert found.tree() == []
    found.close()


@pytest.mark.parametrize("leaks", [True, False])
def test_a_call_that_leaves_memory_behind_is_a_leak(started, leaks):
    later = (
        "kept.append(bytearray(50_000)); kept[-1][::1000] = bytes(50)"
        if leaks
        else "bytearray(50_000)"
    )
    found = started(later=later, seconds=0, start="kept = []")
    found.wait_ready()
    for _ in range(12):
        found.ask(a_slice(20, 1), 20)
    left = found.ask({CHECK: True}, 20)["left_bytes"]
    assert 45_000 < left < 60_000 if leaks else left == 0


def test_no_call_begins_after_the_time_of_a_slice(started):
    found = started(seconds=0.05)
    found.wait_ready()
    assert 2 <= len(found.ask(a_slice(1000, 0, 0.12), 20)["each_s"]) <= 4
    # Also of the calls that do not count; one that does is made.
    assert len(found.ask(a_slice(1000, 1000, 0.12), 20)["each_s"]) == 1


def test_compilations_are_counted_in_each_slice(started):
    found = started(more=", compilations=lambda: 7 + calls // 10")
    found.wait_ready()
    assert [found.ask(a_slice(5), 20)["compiled"] for _ in range(4)] == [0, 1, 0, 1]


def test_it_runs_with_the_variables_of_its_member(started):
    found = started(start="assert os.environ['WHERE'] == 'there'", env={"WHERE": "there"})
    found.wait_ready()


def test_nothing_is_left_of_its_temporary_files(started, tmp_path):
    left = tmp_path / "left"
    start = f"import tempfile; open({str(left)!r}, 'w').write(tempfile.mkdtemp())"
    found = started(start=start)
    found.wait_ready()
    assert Path(left.read_text()).is_dir()
    found.close()
    assert not Path(left.read_text()).exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_killed_worker_is_a_crash_named_by_its_signal(started, number):
    found = started(seconds=0.05)
    found.wait_ready()
    pid = found.tree()[0]
    killed = threading.Timer(0.3, os.kill, (pid, number))
    killed.start()
    of = ended(found, a_slice(1000, 0, 60))
    killed.join()
    assert (of.status, of.reason) == ("crashed", number.name)
    assert found.tree() == []


def test_a_worker_that_died_between_two_slices_is_a_crash(started):
    found = started()
    found.wait_ready()
    os.kill(found.tree()[0], signal.SIGKILL)
    time.sleep(0.2)
    assert ended(found).reason == "SIGKILL"


@pytest.mark.parametrize("started", ["forked"], indirect=True)
def test_a_worker_ends_with_the_process_that_forked_it(started):
    found = started()
    found.wait_ready()
    server = psutil.Process(found.tree()[0]).parent()
    assert "scripts.stages.fork_server" in server.cmdline()
    server.kill()
    of = ended(found)
    assert (of.status, of.reason) == ("crashed", "SIGKILL")
    assert of.detail == "the process that forked it is gone"
    assert found.tree() == []


def test_a_hang_is_a_timeout(started):
    found = started(later="time.sleep(600)")
    found.wait_ready()
    of = ended(found, limit_s=1.0)
    assert (of.status, of.reason, of.detail) == ("timeout", "time-limit", "no answer for 1 s")
    found.close()
    assert found.tree() == []


def test_what_does_not_become_ready_is_a_timeout(started):
    found = started(load_s=1.0, start="time.sleep(600)")
    with pytest.raises(MemberEnded) as info:
        found.wait_ready()
    assert info.value.status == "timeout"


@pytest.mark.parametrize("at", ["start", "later"])
def test_an_error_has_the_detail_of_its_exception(started, at):
    found = started(**{at: "raise ValueError('no such operator')"})
    with pytest.raises(MemberEnded) as info:  # noqa: PT012 - at the start, or in a slice
        found.wait_ready()
        found.ask(a_slice(20), 20)
    of = info.value
    assert of.status == "error"
    assert "ValueError: no such operator" in of.detail


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [(1, "error", "not-alike"), (3, "unsupported", None), (69, "unavailable", None)],
)
def test_what_a_worker_says_is_wrong_is_its_status(started, code, status, reason):
    said = f"exits.fail('the outputs differ', {code}, {reason or ''!r})"
    more = f", check=lambda: __import__('scripts.core.exits').core.{said}"
    found = started(more=more)
    found.wait_ready()
    of = ended(found, {CHECK: True})
    assert of.status == status
    assert of.detail == "the outputs differ"
    assert reason in (of.reason, None)


def test_one_that_ends_without_an_error_has_ended_all_the_same(started):
    found = started(later="os._exit(0)")
    found.wait_ready()
    of = ended(found)
    assert (of.status, of.detail) == ("error", "it ended while it was timed")


def test_children_of_a_worker_end_with_it(started):
    found = started(start="import subprocess; subprocess.Popen(['sleep', '600'])")
    found.wait_ready()
    assert len(found.tree()) == 2
    found.close()
    deadline = time.monotonic() + 5
    while running() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running()


def test_a_check_of_the_one_that_waits_may_end_the_wait(started):
    def check():
        raise Interrupted("asked to stop")

    begun = time.monotonic()
    with pytest.raises(Interrupted):  # a fork server is waited for too
        started(check=check, start="time.sleep(30)").wait_ready()
    assert time.monotonic() - begun < 5


class Watch:
    """Stops when it is told to."""

    stop = False

    def check(self):
        if self.stop:
            raise Interrupted("stopped")


@pytest.fixture
def workers(tmp_path):
    def of(memory_mb: float = 4000.0, seconds: float = 60.0) -> Workers:
        job = Job("time", "m/cpu/eval", tmp_path / "s.json", tmp_path / "log.txt", ["x"], seconds, memory_mb, owner=os.getpid())  # fmt: skip
        return Workers(job, os.getpid(), Watch(), seconds)

    return of


def timed(started, workers: Workers, rule: Rule, **members_of) -> Group:
    of = {name: started.described(name, **code) for name, code in members_of.items()}
    found = Group(list(of), lambda name: workers.start(of[name]), rule, lambda _: False)
    found.run()
    return found


RULE = Rule(budget_s=0.6, generations=2)


def test_a_group_of_processes_is_timed(started, workers):
    of = workers()
    found = timed(started, of, RULE, quick={"seconds": 0.001}, slow={"seconds": 0.01})
    quick, slow = ([one.each_s for one in found.timed[n].generations] for n in ("quick", "slow"))
    assert len(quick) == len(slow) == 2
    assert min(min(calls) for calls in slow) >= 0.01
    assert max(min(calls) for calls in quick) < 0.01
    assert not running()


GROW = """
held = []
def grow(at):
    if calls == at:
        held.append(bytearray(b"x" * 700 * 2**20))
"""


@pytest.mark.parametrize("when", ["load", "turns"])
def test_members_that_need_too_much_memory_end_the_largest(started, workers, when):
    code = {"start": f"{GROW}grow(0); time.sleep(3)"}
    if when == "turns":
        code = {"start": GROW, "later": "grow(300)"}
    of = workers(memory_mb=600.0)
    found = timed(started, of, Rule(budget_s=4, generations=2), big=code, small={})
    one = found.timed["big"].ended
    assert one is not None
    assert (one.status, one.reason) == ("oom", "memory-limit")
    assert "the limit is 600 MiB, and this one held most" in one.detail
    assert found.timed["small"].ended is None
    assert len(found.timed["small"].generations) == 2
    assert of.peak_mb > 600
    assert not running()


@pytest.mark.parametrize("why", ["time", "stop"])
def test_a_limit_or_a_stop_ends_the_turns_and_all_processes(started, workers, why):
    of = workers(seconds=2.5 if why == "time" else 60)
    if why == "stop":
        threading.Timer(2.0, setattr, (of._watch, "stop", True)).start()
    begun = time.monotonic()
    with pytest.raises(TimeoutError if why == "time" else Interrupted):
        timed(started, of, Rule(budget_s=15, generations=1), a={}, b={"seconds": 0.003})
    assert time.monotonic() - begun < 8
    assert not running()


GENERATIONS = """
import os, signal, threading, time
from scripts.measure.timing import worker

parent = os.getpid()
{start}

def load():
    {load}
    return worker.Program(lambda: {call})

worker.serve_generations(load)
"""


@pytest.fixture
def generations(tmp_path, started, workers):
    """Starts a member that is loaded anew in each generation."""

    def of(load="pass", call="None", start="") -> Process:
        code = GENERATIONS.format(start=start, load=load, call=call)
        (tmp_path / "package/kept.py").write_text(code)
        member = replace(started.described("kept"), command=(sys.executable, "-m", "package.kept"))
        (tmp_path / "package/kept.py").write_text(code)
        found = all_of.start(member)
        found.wait_ready()
        return found

    all_of = workers()
    yield of
    all_of.close()
    assert not running()


def test_a_process_builds_once_and_loads_in_a_new_process_for_each_generation(
    generations, tmp_path
):
    pids = tmp_path / "pids"
    load = f"open({str(pids)!r}, 'a').write(f'{{parent}} {{os.getpid()}}\\n')"
    first = generations(load)
    for _ in range(2):
        assert len(first.ask(a_slice(5), 20)["each_s"]) == 5
        assert first.ask({CHECK: True}, 20)["peak_rss_mb"] > 1
        first.rest()
        assert first.is_resting
        assert len(first.tree()) == 1, "the process of the generation has ended"
        assert generations(load) is first
    parents, loaded = zip(*map(str.split, pids.read_text().splitlines()), strict=True)
    assert len(set(parents)) == 1
    assert len(set(loaded)) == 3
    assert not set(loaded) & set(parents)


def test_the_process_of_a_generation_that_is_killed_ends_its_member(generations):
    found = generations(call="os.kill(os.getpid(), signal.SIGSEGV)")
    of = ended(found)
    assert (of.status, of.reason) == ("crashed", "SIGSEGV")
    found.rest()
    assert not found.is_resting


def test_an_exit_code_is_that_of_the_process_of_the_generation(generations):
    with pytest.raises(MemberEnded) as info:
        generations(load="from scripts.core import exits; exits.fail('no', exits.UNSUPPORTED)")
    assert info.value.status == "unsupported"


def test_a_process_with_threads_serves_one_generation(generations):
    start = "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    first = generations(start=start)
    assert len(first.ask(a_slice(5), 20)["each_s"]) == 5
    first.rest()
    assert not first.is_resting
    assert first.tree() == []
    assert generations(start=start) is not first


def test_a_command_that_does_not_exist_ends_its_member(tmp_path):
    member = Member("one", ("/no/such/python", "-m", "x"), tmp_path / "log.txt")
    with pytest.raises(MemberEnded, match="No such file") as info:
        Process(member, os.getpid(), tmp_path / "server.txt", 5, lambda: None)
    assert (info.value.status, info.value.reason) == ("error", "cannot-start")


@pytest.fixture
def asked(monkeypatch):
    """The answers of a worker in this process to requests."""

    def of(serve, *requests):
        answers = []
        monkeypatch.setattr(worker.commands, "coordinator_requests", lambda: iter(requests))
        monkeypatch.setattr(worker.commands, "answer_coordinator", answers.append)
        monkeypatch.setattr(worker.process, "reset_peak_rss", lambda: None)
        serve()
        return answers

    return of


def test_programs_are_loaded_one_at_a_time(asked):
    held = []

    class Big:
        def __init__(self, name):
            self.name = name
            held.append(name)

        def __del__(self):
            held.remove(self.name)

        def __call__(self):
            calls.append(self.name)

    def load(name):
        assert held == [], "the one before was released"
        return worker.Program(Big(name))

    calls: list[str] = []
    found = asked(
        lambda: worker.serve(load=load),
        *({LOAD: "a"}, a_slice(2, 1), {LOAD: "b"}, a_slice(1), {CHECK: True}),
    )
    assert calls == ["a", "a", "a", "b"]
    assert [next(iter(one)) for one in found] == ["ready", "load", "each_s", "load", "each_s", "check"]  # fmt: skip


def test_a_call_ends_when_the_device_has_finished_it(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    done = []

    def call():
        clock.now += 1

    def finish():
        clock.now += 10
        done.append(clock.now)

    timer = SimpleNamespace(perf_counter=lambda: clock.now, process_time=lambda: clock.now)
    monkeypatch.setattr(worker, "time", timer)
    found = worker.time_slice(worker.Program(call, finish), calls=3, uncounted=1, seconds=1000)
    assert found == {"each_s": [11, 11, 11], "cpu_s": 44, "compiled": 0}
    assert done == [11, 22, 33, 44]
