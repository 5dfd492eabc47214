"""Stages forked from a process that has imported their packages are as isolated as spawned ones.

The environment here is the tests' own, which has numpy of what is imported.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from scripts.supervise import fork_server, outcome, supervise
from scripts.supervise.job import Interrupted, Job
from tests.unit.conftest import job_in

STAGE = """
import os, sys, time
{code}
open(sys.argv[1], "w").write(str(os.getpid()))
"""


pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture
def run(tmp_path, package):
    """Supervise a piece of Python as a module, forked; the server is this process's."""

    def forked(code: str = "", **more):
        (tmp_path / "package" / "stage.py").write_text(STAGE.format(code=code))
        artifact = tmp_path / "cell" / "artifact.txt"
        job = forked_job(artifact, **{"artifacts": [artifact], "timeout_s": 30} | more)
        return supervise.run(job), artifact, job

    return forked


def forked_job(artifact: Path, **more) -> Job:
    command = [sys.executable, "-m", "package.stage", str(artifact)]
    return job_in(artifact.parent, command, preload=True, owner=os.getppid(), **more)


def servers() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children()
        if child.status() != psutil.STATUS_ZOMBIE
        and "scripts.stages.fork_server" in child.cmdline()
    ]


def stages() -> list[psutil.Process]:
    return [child for server in servers() for child in server.children(recursive=True)]


def test_a_forked_stage_ends_as_a_spawned_one_does(run):
    result, artifact, job = run("print('hello'); assert 'numpy' in sys.modules")
    assert (result.status, result.reason) == ("ok", "")
    assert artifact.read_text().isdecimal()
    log = job.log_path.read_text()
    assert "hello" in log
    assert "not forked" not in log
    assert outcome.read_usage(job.status_path).max_rss_mb > 1


def test_stages_of_a_run_share_one_server_and_no_state(run):
    run("import numpy; numpy.marked = True; os.environ['MARK'] = 'x'")
    before = [server.pid for server in servers()]
    result, *_ = run(
        "import numpy; assert not hasattr(numpy, 'marked') and 'MARK' not in os.environ"
    )
    assert result.status == "ok"
    assert [server.pid for server in servers()] == before


def test_a_package_of_a_model_is_imported_for_the_stages_after_the_first_that_needs_it(run, tmp_path):  # fmt: skip
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("import os; imported_by = os.getpid()")
    run("assert 'torchvision' not in sys.modules; import torchvision; assert torchvision.imported_by == os.getpid()")  # fmt: skip
    result, *_ = run("import torchvision; assert torchvision.imported_by == os.getppid()")
    assert result.status == "ok", result.detail


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [
        ("raise ValueError('bad')", "error", "ValueError"),
        ("sys.exit(3)", "unsupported", None),
        ("os.kill(os.getpid(), 11)", "crashed", "SIGSEGV"),
        ("sys.exit('error: what is wrong')", "error", None),
        ("os._exit(0)", "error", "no-artifact"),
        ("held = []\nwhile True: held.append(bytearray(1 << 24))", "oom", "memory-limit"),
    ],
)
def test_a_failure_is_that_stages_alone(run, code, status, reason):
    result, *_ = run(code, memory_mb=400)
    assert result.status == status
    assert reason is None or result.reason == reason
    assert run()[0].status == "ok", "the server forks on"


@pytest.mark.parametrize(("then", "status"), [("", "ok"), ("time.sleep(60)", "timeout")])
def test_background_processes_do_not_outlive_their_stage(run, then, status):
    daemon = "import subprocess; subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
    assert run(daemon + then, timeout_s=3)[0].status == status
    assert stages() == []


def test_a_stage_whose_server_is_killed_is_run_again_by_itself(run):
    result, _, job = run("if 'numpy' in sys.modules: os.kill(os.getppid(), 9); time.sleep(60)")
    assert result.status == "ok", result.detail
    assert "not forked, but started by itself" in job.log_path.read_text()


def test_threads_of_the_server_make_stages_start_by_themselves(run, tmp_path, monkeypatch):
    (tmp_path / "torch_xla").mkdir()
    (tmp_path / "torch_xla" / "__init__.py").write_text("")
    (tmp_path / "torch_xla" / "stablehlo.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    )
    result, _, job = run()
    assert result.status == "ok"
    assert "the process to fork has 2 threads" in job.log_path.read_text()


def test_the_stage_ends_when_its_supervisor_is_killed(run, tmp_path):
    began = tmp_path / "pid.txt"
    code = f"open({str(began)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    (tmp_path / "package" / "stage.py").write_text(STAGE.format(code=code))
    supervisor = os.fork()
    if not supervisor:
        with contextlib.suppress(Interrupted):
            supervise.run(forked_job(tmp_path / "long/a.txt", timeout_s=60))
        os._exit(0)
    _until(lambda: began.is_file() and began.read_text())
    stage = psutil.Process(int(began.read_text()))
    os.kill(supervisor, signal.SIGKILL)
    os.waitpid(supervisor, 0)
    _until(lambda: not stage.is_running())


def test_the_server_and_its_stages_end_with_the_run(tmp_path):
    owner = subprocess.Popen(["sleep", "60"])
    where = fork_server.address(sys.executable, owner.pid)
    words = ["-m", "scripts.stages.fork_server", "--owner", str(owner.pid)]
    command = [sys.executable, *words, "--python", sys.executable]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert "packages imported" in server.stdout.readline()
        assert fork_server.listen(where) is None, "the address is taken"
        owner.kill()
        owner.wait()
        assert server.wait(10) == 0


def _until(condition, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


def test_a_stage_ends_with_its_threads_and_what_is_to_be_done_at_its_exit(run):
    _, _, job = run(
        "import atexit, threading\n"
        "atexit.register(print, 'at exit')\n"
        "threading.Timer(0.3, print, ['a thread']).start()"
    )
    assert "a thread\nat exit" in job.log_path.read_text()


def test_a_server_that_is_still_importing_ends_with_the_run(tmp_path, monkeypatch):
    (tmp_path / "torch_xla").mkdir()
    (tmp_path / "torch_xla" / "__init__.py").write_text("import time\ntime.sleep(60)")
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[2]}:{tmp_path}")
    owner = subprocess.Popen(["sleep", "60"])
    command = ["-m", "scripts.stages.fork_server", "--owner", str(owner.pid), "--python", "another"]
    with subprocess.Popen([sys.executable, *command]) as server:
        time.sleep(1)
        owner.kill()
        owner.wait()
        assert server.wait(10) == 0
