"""Fault injection for the supervisor: whatever a stage does, there is an outcome and no process is left."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from scripts.core import exits, process
from scripts.supervise import outcome, supervise
from scripts.supervise.job import Interrupted, MoreNeeded
from tests.unit.conftest import job_in

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(tmp_path):
    """Supervise a piece of Python; `{out}` in it is the artifact's path as the child sees it."""

    def supervised(code: str, timeout_s: float = 20, memory_mb: float = 4000, **more):
        artifact = tmp_path / "cell" / "artifact.bin"
        command = [sys.executable, "-c", code, str(artifact)]
        limits = {"timeout_s": timeout_s, "memory_mb": memory_mb}
        more |= {"artifacts": [artifact], "fingerprint": "abc", "due": "abc+1"}
        job = job_in(tmp_path / "cell", command, **limits, **more)
        result = supervise.run(job)
        assert outcome.read(job.status_path) == result
        assert process.descendants(os.getpid()) == []
        return result, artifact, job

    return supervised


WRITE = "import sys; open(sys.argv[1], 'w').write('made'); "


def test_a_stage_that_ends_well_leaves_its_artifact_and_an_ok(run):
    result, artifact, job = run(WRITE + "print('hello')")
    assert (result.status, result.reason, result.detail, result.limit) == ("ok", "", "", None)
    assert (result.fingerprint, result.due) == ("abc", "abc+1")
    assert artifact.read_text() == "made"
    assert "hello" in job.log_path.read_text()
    assert outcome.read_usage(job.status_path).max_rss_mb > 1


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGKILL])
def test_a_crash_is_named_by_its_signal(run, number):
    result, artifact, _ = run(WRITE + f"import os; os.kill(os.getpid(), {int(number)})")
    assert (result.status, result.reason) == ("crashed", number.name)
    assert artifact.read_bytes() == b"", "a crashed stage's artifact must not be taken for whole"


def test_the_journal_has_the_length_of_a_stage_though_the_clock_was_set(run, tmp_path, monkeypatch):
    times = iter([9000.0])
    monkeypatch.setattr(supervise.time, "time", lambda: next(times, 5.0))
    result, _, _ = run(WRITE, journal=tmp_path / "journal.jsonl")
    [entry] = map(json.loads, (tmp_path / "journal.jsonl").read_text().splitlines())
    assert result.status == "ok"
    assert 0 <= entry["child_seconds"] <= entry["end"] - entry["start"] < 20


def test_a_real_segfault_says_where(run):
    result, _, _ = run("import ctypes; ctypes.string_at(0)")
    assert (result.status, result.reason) == ("crashed", "SIGSEGV")
    assert "Segmentation fault" in result.detail


def test_a_hang_is_a_timeout_and_nothing_of_it_is_left(run):
    start = time.monotonic()
    result, artifact, _ = run(WRITE + "import time; time.sleep(600)", timeout_s=0.5)
    assert (result.status, result.reason) == ("timeout", "time-limit")
    assert (result.detail, result.limit) == ("still running after 0.5 s", 0.5)
    assert time.monotonic() - start < 10
    assert artifact.read_bytes() == b""


def test_a_limit_is_each_ones_where_a_stage_says_that_the_next_one_begins(run):
    steps = "import time; [(commands.report_next(), time.sleep(0.7)) for _ in range(4)]"
    result, _, _ = run(WRITE + f"from scripts.core import commands; {steps}", timeout_s=2)
    assert result.status == "ok"


HELD = "held = []\nwhile True: held.append(bytearray(8 << 20))"
CHILD = "x = b'1' * (120 << 20); import time; time.sleep(60)"
TREE = f"""
import subprocess, sys
all = [subprocess.Popen([sys.executable, '-c', {CHILD!r}]) for _ in range(4)]
[p.wait() for p in all]
"""


@pytest.mark.parametrize(("code", "memory_mb"), [(HELD, 300), (TREE, 400)], ids=["one", "tree"])
def test_too_much_memory_of_a_process_tree_is_an_oom_that_names_the_limit(run, code, memory_mb):
    result, _, _ = run(code, memory_mb=memory_mb, timeout_s=60)
    assert (result.status, result.reason, result.limit) == ("oom", "memory-limit", memory_mb)
    assert f"{memory_mb} MiB" in result.detail


HANGS = "import time; time.sleep(600)"


@pytest.mark.parametrize(
    ("code", "limits", "more", "said"),
    [
        (HELD, {"memory_mb": 300}, "more_memory", "the limit is 300 MiB; to be run with more"),
        (HANGS, {"timeout_s": 0.5}, "more_time", "still running after 0.5 s; to be run with more"),
        (
            f"import sys; print('error: too large'); sys.exit({exits.TOO_LARGE})",
            {},
            "more_memory",
            "too large; to be run with more",
        ),
    ],
)
def test_a_limit_that_can_be_raised_leaves_no_outcome(run, tmp_path, code, limits, more, said):
    with pytest.raises(MoreNeeded, match=f"compile m/f/t: .*{said}"):
        run(code, **limits, **{more: True})
    assert not (tmp_path / "cell/status.json").exists()
    assert not (tmp_path / "cell/.scratch").exists()
    assert outcome.begun(tmp_path / "cell/status.json") == "abc+1"
    assert process.descendants(os.getpid()) == []
    other = {"more_memory": "more_time", "more_time": "more_memory"}[more]
    assert run(code, **limits, **{other: True})[0].status in ("oom", "timeout")


def test_a_stage_that_fails_of_itself_fails_whatever_more_is_to_be_had(run):
    result, _, _ = run("raise SystemExit(3)", more_memory=True, more_time=True)
    assert result.status == "unsupported"


def test_a_stage_is_told_what_it_may_hold_and_one_that_needs_more_meets_that_limit(run):
    code = (
        "from scripts.frontends.torch_model import footprint as f; "
        "f.require(f.Weights(10**9, 4 * 10**9, 4 * 10**9, 'f32'), 'export torch_xla', 2.4)"
    )
    result, artifact, _ = run(code, memory_mb=6000)
    assert (result.status, result.reason, result.limit) == ("oom", "estimated", 6000)
    assert "need 9.6 GB in the export torch_xla stage, and it may use 6.3 GB" in result.detail
    assert artifact.read_bytes() == b""


@pytest.mark.parametrize("setsid", [False, True])
def test_background_processes_do_not_outlive_their_stage(run, tmp_path, setsid):
    pid_file = tmp_path / "pid"
    result, _, _ = run(
        WRITE + "import subprocess\n"
        f"p = subprocess.Popen(['sleep', '600'], start_new_session={setsid})\n"
        f"open({str(pid_file)!r}, 'w').write(str(p.pid))"
    )
    assert result.status == "ok"
    assert not psutil.pid_exists(int(pid_file.read_text()))


def test_exit_0_without_the_artifact_is_an_error(run):
    result, _, _ = run("pass")
    assert (result.status, result.reason) == ("error", "no-artifact")
    assert "artifact.bin" in result.detail


@pytest.mark.parametrize(
    ("code", "status", "kept"),
    [
        (exits.UNSUPPORTED, "unsupported", b""),
        (exits.UNAVAILABLE, "unavailable", b""),
        (exits.WRONG_RESULT, "error", b"made"),
    ],
)
def test_exit_codes_say_what_kind_of_failure(run, code, status, kept):
    result, artifact, _ = run(WRITE + f"print('error: said so', file=sys.stderr); sys.exit({code})")
    assert (result.status, result.detail) == (status, "said so")
    assert artifact.read_bytes() == kept


def test_a_stage_blocked_upstream_is_skipped_and_names_the_first_cause(run, tmp_path):
    above = tmp_path / "above" / "status.json"
    outcome.write(
        above,
        outcome.Outcome(
            "crashed", "export", "m/f", "SIGSEGV", "killed by SIGSEGV", fingerprint="x"
        ),
        outcome.Usage(1.0, 1.0),
    )
    result, artifact, job = run("raise SystemExit('must not run')", upstream=[above])
    assert (result.status, result.blocked_by) == ("skipped", "export m/f")
    assert (result.fingerprint, result.due, result.limit) == ("abc", "abc+1", None)
    assert (result.reason, result.detail) == ("SIGSEGV", "killed by SIGSEGV")
    assert artifact.read_bytes() == b""
    below, _, _ = run("raise SystemExit('must not run')", upstream=[job.status_path])
    assert below.blocked_by == "export m/f"


def test_a_job_of_a_skip_list_is_skipped_for_the_list_and_nothing_blocks_it(run, tmp_path):
    result, artifact, job = run(WRITE, skip="skip.device.cpu of bench.yaml")
    assert (result.status, result.stage, result.cell) == ("skipped", "compile", "m/f/t")
    assert (result.reason, result.detail) == ("skip-list", "skip.device.cpu of bench.yaml")
    assert (result.blocked_by, result.limit) == ("", None)
    assert (result.fingerprint, result.due) == ("abc", "abc+1")
    assert str(artifact) in result.command
    assert artifact.read_bytes() == b"", "it was not to run"
    assert outcome.read_usage(job.status_path) == outcome.Usage(0.0, 0.0)
    said = job.log_path.read_text()
    assert "# skipped: skip-list: skip.device.cpu of bench.yaml" in said
    assert "blocked by" not in said
    for _ in range(2):  # what stands on it, and on that
        above = job.status_path.rename(tmp_path / "above.json")
        below, artifact, job = run(WRITE, upstream=[above])
        assert (below.status, below.reason, below.detail) == ("skipped", "skip-list", result.detail)
        assert below.blocked_by == ""
        assert artifact.read_bytes() == b""


def test_a_failure_beside_a_skipped_job_is_named_where_it_comes_first(run, tmp_path):
    states = {"env": ("error", "exit-1"), "compile": ("skipped", "skip-list")}
    for stage, (status, reason) in states.items():
        ended = outcome.Outcome(status, stage, "x", reason, "d")
        outcome.write(tmp_path / stage / "status.json", ended, outcome.Usage(0, 0))
    upstream = [tmp_path / stage / "status.json" for stage in states]
    assert run(WRITE, upstream=upstream)[0].blocked_by == "env x"
    assert run(WRITE, upstream=upstream[::-1])[0].blocked_by == ""


def test_a_command_that_does_not_exist_is_an_error_on_record(tmp_path):
    made = tmp_path / "cell" / "artifact.bin"
    gone = str(tmp_path / "no" / "python")
    job = job_in(tmp_path / "cell", [gone, "-c", "pass"], artifacts=[made])
    result = supervise.run(job)
    assert outcome.read(job.status_path) == result
    assert (result.status, result.limit) == ("error", None)
    assert "No such file or directory" in result.detail
    assert gone in result.detail
    assert made.read_bytes() == b""
    assert outcome.read_usage(job.status_path) == outcome.Usage(0.0, 0.0)


@pytest.mark.parametrize("more", [{}, {"skip": "why"}])
def test_a_job_whose_owner_is_gone_starts_and_records_nothing(tmp_path, more):
    started = tmp_path / "started"
    job = job_in(
        tmp_path / "cell", ["touch", str(started)], owner=os.getpid(), **more
    )  # no one's own parent
    with pytest.raises(Interrupted, match=f"process {os.getpid()} .* is gone"):
        supervise.run(job)
    assert not started.exists()
    assert not job.status_path.exists()
    assert not (tmp_path / "cell" / ".scratch").exists()


def test_nothing_is_left_running_when_the_log_cannot_be_written(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(supervise.CappedLog, "feed", full)
    with contextlib.suppress(OSError):
        supervise.run(job_in(tmp_path / "cell", ["sh", "-c", "echo hello; sleep 600"]))
    left = process.descendants(os.getpid())
    for pid in left:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert left == []


def _command_line(tmp_path: Path, code: str) -> list[str]:
    """The command of a supervisor. Its stage's interpreter runs `code`, whatever it is asked for."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexec {sys.executable} -c {shlex.quote(code)}\n")
    python.chmod(0o755)
    return [
        *(
            sys.executable,
            "-m",
            "scripts.stages.supervise",
            "--stage",
            "compile",
            "--cell",
            "m/f/t",
        ),
        *("--status", str(tmp_path / "status.json"), "--log", str(tmp_path / "log.txt")),
        *("--timeout", "600", "--memory", "4000", "--run", "stage", "--python", str(python)),
        *("--request", "{}", "--version", "3"),
    ]


def _wait_for(path: Path) -> int:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if path.exists() and path.read_text():
            return int(path.read_text())
        time.sleep(0.02)
    raise TimeoutError(path)


def _gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_stopping_the_supervisor_stops_the_stage_and_records_nothing(tmp_path, number):
    pid_file = tmp_path / "pid"
    code = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    supervisor = subprocess.Popen(_command_line(tmp_path, code), cwd=ROOT)
    stage = _wait_for(pid_file)
    supervisor.send_signal(number)
    assert supervisor.wait(20) != 0
    assert _gone(stage)
    assert not (tmp_path / "status.json").exists()


def test_the_stage_ends_when_whoever_asked_for_it_is_killed(tmp_path):
    pid_file = tmp_path / "pid"
    code = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    # In the place of Snakemake: a process that starts the supervisor and is killed with -9.
    asker = subprocess.Popen(
        [sys.executable, "-c", f"import subprocess; subprocess.run({_command_line(tmp_path, code)!r})"],
        cwd=ROOT,
    )  # fmt: skip
    stage = _wait_for(pid_file)
    asker.kill()
    asker.wait()
    assert _gone(stage)
    assert not (tmp_path / "status.json").exists()


def test_a_failing_stage_lets_the_command_line_exit_0_and_has_the_code_and_due_on_record(tmp_path):
    command = _command_line(tmp_path, "raise SystemExit(7)")
    subprocess.run([*command, "--due", "abc+1"], cwd=ROOT, check=True)
    ended = outcome.read(tmp_path / "status.json")
    assert (ended.reason, ended.fingerprint, ended.due) == ("exit-7", "3", "abc+1")


def test_the_command_line_skips_what_it_is_told_to_with_the_reason_as_it_stands(tmp_path):
    command = _command_line(tmp_path, "raise SystemExit('must not run')")
    reason = "skip.all of it's a $file; {here}"
    subprocess.run([*command, "--skip", reason], cwd=ROOT, check=True)
    ended = outcome.read(tmp_path / "status.json")
    assert (ended.status, ended.reason, ended.detail) == ("skipped", "skip-list", reason)


def test_a_fault_of_the_supervisor_itself_is_a_row_too_and_leaves_nothing_running(run, monkeypatch):
    def fails(*_, **__):
        raise FileNotFoundError("/proc/8945/task")

    monkeypatch.setattr(process, "resident_mb", fails)
    result, artifact, job = run(WRITE + "import time; time.sleep(60)")
    assert (result.status, result.reason) == ("error", "supervisor")
    assert result.detail == "FileNotFoundError: /proc/8945/task"
    assert "Traceback" in job.log_path.read_text()
    assert artifact.read_bytes() == b""


WORK = "from scripts.core import commands; import os, sys, time\n"


def test_start_up_is_told_from_work(run, tmp_path):
    path = tmp_path / "journal.jsonl"
    code = "time.sleep(0.3); commands.report_working(); time.sleep(2); open(sys.argv[1], 'w').write('x')"
    run(WORK + code, journal=path)
    (entry,) = map(json.loads, path.read_text().splitlines())
    # On a busy machine the supervisor hears of it late: a second is left for that.
    assert 0.2 < entry["startup_s"] < entry["child_seconds"] - 1


def test_the_memory_of_a_stage_is_kept_over_time_with_its_marks(run):
    code = "from scripts.core import commands; import time; time.sleep(0.2); commands.report_part('timed calls'); "
    _, _, job = run(WRITE + code + "held = b'x' * 300_000_000; time.sleep(0.5)")
    series = outcome.read_memory(job.status_path)
    assert max(series.mb) > 200 > series.mb[0]
    [(seconds, name)] = series.marks
    assert name == "timed calls"
    assert 0 < seconds < series.seconds[-1]


def test_a_stage_that_is_blocked_has_no_memory_of_an_earlier_run(run, tmp_path):
    _, _, job = run(WRITE + "import time; time.sleep(0.3)")
    assert outcome.read_memory(job.status_path)
    run(WRITE, skip="on a skip list")
    assert outcome.read_memory(job.status_path) is None


def test_a_supervisor_starts_without_large_packages():
    """It runs once per job: numpy would double the time of its start."""
    code = "import sys, scripts.stages.supervise; print(*{'numpy', 'pandas', 'pydantic', 'rich', 'scipy'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stdout + done.stderr
