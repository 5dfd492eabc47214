"""process: all descendants are found, and a tool's failure is passed on as a failure."""

import os
import signal
import subprocess
import sys

import pytest

from scripts.core import exits, process

FORKS = "sh -c 'echo $$; exec sleep 60' & wait"

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.mark.parametrize("kernel_lists_children", [True, False])
def test_descendants_include_grandchildren(monkeypatch, kernel_lists_children):
    if not kernel_lists_children:
        monkeypatch.setattr(process.Path, "exists", lambda _: False)
    shell = subprocess.Popen(
        ["sh", "-c", FORKS], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        grandchild = int(shell.stdout.readline())
        assert process.descendants(shell.pid) == [grandchild]
        assert {shell.pid, grandchild} <= set(process.descendants(os.getpid()))
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
        shell.stdout.close()
    assert shell.pid not in process.descendants(os.getpid())


def test_a_forked_process_returns_its_work_and_how_it_ended(capfd):
    assert process.forked(lambda: b"done") == (0, b"done")
    assert process.forked(lambda: bytes([1 // 0])) == (1, b"")
    assert "ZeroDivisionError" in capfd.readouterr().err
    assert process.forked(lambda: os.kill(os.getpid(), signal.SIGSEGV))[0] == -signal.SIGSEGV


def test_what_a_tool_prints_is_passed_through_and_returned(capfd):
    said: list[str] = []
    process.run_tool([sys.executable, "-c", "import sys; sys.stderr.write('a\\nb\\n')"], said=said)
    assert said == ["a\n", "b\n"]
    assert capfd.readouterr().err == "a\nb\n"


def test_a_tool_is_accounted_for_with_its_exit_code_and_peak_memory():
    run = process.run_tool([sys.executable, "-c", "b'x' * (64 << 20); raise SystemExit(7)"])
    assert run.returncode == 7
    assert run.seconds > 0
    assert 64 < run.max_rss_mb < 1024


@pytest.mark.parametrize(
    ("code", "passed_on"),
    [
        (0, 0),
        (1, 1),
        *[(code, 1) for code in (2, *exits.STATUS_OF, 255)],  # a tool's codes are not ours
        (-signal.SIGSEGV, -signal.SIGSEGV),
        (-signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_a_stage_ends_by_its_tools_signal_and_with_1_for_any_of_its_exit_codes(code, passed_on):
    source = f"from scripts.core.process import exit_like; exit_like({code})"
    assert subprocess.run([sys.executable, "-c", source], check=False).returncode == passed_on


def test_a_process_that_goes_away_while_it_is_asked_has_no_children(monkeypatch):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    listdir = os.listdir

    def gone(path):
        if path == f"/proc/{child.pid}/task":
            child.kill()
            child.wait()
        return listdir(path)

    monkeypatch.setattr(os, "listdir", gone)
    assert process.descendants(os.getpid()) == [child.pid]
    assert child.pid not in process.descendants(os.getpid())
