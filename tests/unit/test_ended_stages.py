"""Stages that are killed or hang: the same outcomes whether spawned or forked.

The environment here is the tests' own.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time

import pytest

from scripts.core import process
from scripts.run import fingerprint
from scripts.supervise import supervise, watch
from tests.unit.conftest import job_in

pytestmark = [
    pytest.mark.usefixtures("nothing_is_left"),
    pytest.mark.parametrize("preload", [False, True], ids=["spawned", "forked"]),
]

STAGE = """
import ctypes, os, signal, subprocess, sys, time
from pathlib import Path

def begun():
    print("begun", flush=True)
    Path(sys.argv[1]).with_name("pid.txt").write_text(str(os.getpid()))

def waits(seconds=60):
    {code}

waits()
Path(sys.argv[1]).write_text("made")
"""


@pytest.fixture
def run(tmp_path, package, preload):
    """Supervise a piece of Python as a module; `{code}` is the body of its function waits()."""

    def supervised(code: str):
        (package / "stage.py").write_text(STAGE.format(code=code))
        folder = tmp_path / "cell"
        made = folder / "artifact.txt"
        more = {"artifacts": [made], "timeout_s": 30, "fingerprint": "code", "due": "code"}
        command = [sys.executable, "-m", "package.stage", str(made)]
        job = job_in(folder, command, preload=preload, owner=os.getppid(), **more)
        result = supervise.run(job)
        log = job.log_path.read_text()
        assert "not forked" not in log
        return result, log

    return supervised


@pytest.fixture
def stage(tmp_path):
    """The process id of the stage, None until it has begun."""
    began = tmp_path / "cell" / ".scratch" / "pid.txt"
    return lambda: int(began.read_text() or 0) or None if began.is_file() else None


@pytest.fixture
def kill(stage):
    """Send a signal to the stage once it has begun, as an operator or a daemon would."""

    def send(number: int) -> None:
        while not (pid := stage()):
            time.sleep(0.01)
        os.kill(pid, number)

    def later(number: int) -> None:
        threading.Thread(target=send, args=[number], daemon=True).start()

    return later


@pytest.fixture
def time_is_up(stage, monkeypatch):
    """The stage meets its time limit as soon as it has begun."""
    monkeypatch.setattr(watch.Watch, "_limit_met", lambda *_: "timeout" if stage() else "")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_stage_that_is_killed_from_outside_is_a_row_and_is_made_again(
    run, kill, tmp_path, number
):
    kill(number)
    result, _ = run("begun(); time.sleep(60)")
    assert (result.status, result.reason) == ("crashed", number.name)
    assert result.detail.startswith(f"killed by {number.name} from outside")
    due = fingerprint.due(tmp_path / "cell/status.json", "code")
    assert due == "code+1"
    assert run("pass")[0].status == "ok"


@pytest.mark.parametrize(
    ("counts", "memory_mb", "reason"),
    [
        ([7], 1, "SIGKILL"),
        ([7, 8], 1, "kernel-oom-kill"),
        ([7, 8], 1 << 20, "SIGKILL"),  # the kernel has killed another one, which was larger
    ],
)
def test_a_kill_of_the_kernels_is_told_from_one_from_outside(
    run, kill, monkeypatch, counts, memory_mb, reason
):
    left = iter(counts)
    monkeypatch.setattr(process, "shared_memory_mb", lambda: memory_mb)
    monkeypatch.setattr(process, "kernel_oom_kills", lambda: next(left, counts[-1]))
    kill(signal.SIGKILL)
    result, _ = run("begun(); time.sleep(60)")
    assert result.reason == reason
    assert (result.status == "oom") == (reason == "kernel-oom-kill")
    assert result.is_passing == (reason == "SIGKILL")


@pytest.mark.parametrize(
    "code",
    [
        "time.sleep(seconds)",
        "ctypes.PyDLL(None).sleep(seconds)  # in native code that holds the interpreter",
        "subprocess.run(['sleep', str(seconds)])",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(seconds)",
    ],
)
@pytest.mark.usefixtures("time_is_up")
def test_a_timeout_shows_where_every_thread_was(run, tmp_path, monkeypatch, code):
    monkeypatch.chdir(tmp_path)
    other = "threading.Thread(target=time.sleep, args=[60], daemon=True).start()"
    result, log = run(f"import threading; {other}; begun()\n    {code}")
    assert (result.status, result.reason, result.limit) == ("timeout", "time-limit", 30)
    assert result.detail == "still running after 30 s; last said: begun", "the same in every run"
    assert not result.is_passing
    shown = log[log.index(watch.STACKS) :]
    assert shown.count("most recent call first") == 2
    assert re.search(r'stage.py", line \d+ in waits\n', shown)
    assert not list(tmp_path.rglob("core*"))


@pytest.mark.usefixtures("time_is_up")
def test_a_timeout_shows_where_a_forked_child_was_that_the_stage_waits_for(run):
    hangs = "hangs = lambda: time.sleep(60)\n    os.fork() or begun() or hangs()\n    "
    hangs += "os.wait(); time.sleep(60)"
    _, log = run(hangs)
    shown = log[log.index(watch.STACKS) :]
    assert shown.index(" in <lambda>\n") < shown.rindex(" in waits\n")
    assert shown.count("most recent call first") == 2


@pytest.mark.usefixtures("time_is_up")
def test_a_timeout_says_in_which_pass_the_compiler_was_that_the_stage_runs(run, monkeypatch, tmp_path):  # fmt: skip
    """The compiler shows its stack after some time, in which the stage passes on what it prints, and must not be ended."""
    monkeypatch.setattr(watch, "STACK_SECONDS", 20.0)  # as long as a busy machine needs
    compiler = tmp_path / "iree-compile"
    frames = "\n".join(
        [
            " #0 0x00007f49 llvm::sys::PrintStackTrace(llvm::raw_ostream&, int) Signals.cpp:0:0",
            "#16 0x00007f49 mlir::(anonymous namespace)::Canonicalizer::runOnOperation() Canonicalizer.cpp:0:0",
            "#17 0x00007f49 mlir::iree_compiler::OuterPass::runOnOperation() Outer.cpp:0:0",
        ]
    )
    shows = f"trap 'sleep 0.7; echo \"{frames}\" >&2; exit 134' ABRT"
    compiler.write_text(f"#!/bin/bash\n{shows}\necho begun\nwhile true; do sleep 0.1; done\n")
    compiler.chmod(0o755)
    tool = f"tool = subprocess.Popen({str(compiler)!r}, stderr=subprocess.PIPE)"
    result, log = run(f"{tool}; begun()\n    for line in tool.stderr: os.write(2, line)\n    tool.wait()")  # fmt: skip
    # The stage and its compiler print into one pipe.
    assert result.detail.startswith("still running after 30 s, in the compiler's pass Canonicalizer; last said: begun")  # fmt: skip
    assert log.index(watch.STACKS) < log.index("Canonicalizer") < log.index("OuterPass")


@pytest.mark.usefixtures("time_is_up")
def test_a_stage_that_does_not_show_its_stacks_is_killed_all_the_same(run, monkeypatch):
    monkeypatch.setattr(watch, "STACK_SECONDS", 0.3)
    code = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGABRT]); begun(); time.sleep(60)"
    result, log = run(code)
    assert (result.status, result.reason) == ("timeout", "time-limit")
    assert "most recent call first" not in log
