"""Stages of model files that are not trusted write to their own folders and reach no network, whether spawned or forked.

The environment here is the tests' own.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import sys
import tempfile

import pytest

from scripts.cli import doctor
from scripts.core import process, temporary
from scripts.supervise import fork_server, sandbox, supervise
from tests.unit.conftest import job_in

pytestmark = pytest.mark.usefixtures("nothing_is_left")
in_sandbox = pytest.mark.skipif(bool(sandbox.unavailable()), reason=sandbox.unavailable())

STAGE = """
import json, os, socket, subprocess, sys, tempfile
from pathlib import Path

artifact, outside, listening = map(Path, sys.argv[1:])
done = {}

def attempt(name, work):
    try:
        work()
        done[name] = ""
    except OSError as error:
        done[name] = type(error).__name__ + ": " + os.strerror(error.errno)

attempt("own folder", lambda: artifact.with_name("more.txt").write_text("x"))
attempt("temporary", lambda: tempfile.TemporaryFile())
attempt("shared memory", lambda: Path("/dev/shm/vmfbench-test").write_text("x"))
attempt("device", lambda: Path("/dev/null").write_text("x"))
attempt("peak memory", lambda: Path("/proc/self/clear_refs").write_text("5"))
attempt("outside", lambda: outside.write_text("x"))
attempt("program outside", lambda: subprocess.run(["touch", outside], check=False, stderr=subprocess.DEVNULL))
attempt("network", lambda: socket.create_connection(("192.0.2.1", 80), timeout=3))
attempt("service", lambda: socket.socket(socket.AF_UNIX).connect(str(listening)))
artifact.write_text(json.dumps(done))
"""


@pytest.fixture
def run(tmp_path, package):
    """Supervise the stage above, which says what it could do: "" or an error, by its name."""
    (package / "stage.py").write_text(STAGE)

    def supervised(preload: bool, trusted: bool = False):
        folder = tmp_path / "cell"
        artifact = folder / "artifact.txt"
        with socket.socket(socket.AF_UNIX) as service, temporary.own("test"):
            (tmp_path / "socket").unlink(missing_ok=True)
            service.bind(str(tmp_path / "socket"))
            service.listen()
            paths = (artifact, tmp_path / "outside", tmp_path / "socket")
            more = {"sandbox": None if trusted else folder, "artifacts": [artifact]}
            command = [sys.executable, "-m", "package.stage", *map(str, paths)]
            job = job_in(folder, command, timeout_s=60, preload=preload, owner=os.getppid(), **more)
            result = supervise.run(job)
        assert result.status == "ok", result.detail
        assert "not forked" not in job.log_path.read_text()
        return artifact.read_text(), job.log_path.read_text()

    return supervised


PERMITTED = (
    '"own folder": "", "temporary": "", "shared memory": "", "device": "", "peak memory": ""'
)
FORKED = pytest.mark.parametrize("preload", [False, True], ids=["spawned", "forked"])


@in_sandbox
@FORKED
def test_a_stage_writes_to_its_own_folders_only_and_reaches_no_network(run, tmp_path, preload):
    done, log = run(preload)
    assert PERMITTED in done
    assert '"outside": "OSError: Read-only file system"' in done
    assert '"network": "OSError: Network is unreachable"' in done
    assert '"service": "ConnectionRefusedError: ' in done
    assert not (tmp_path / "outside").exists()
    assert f"# in a sandbox: no network, and it can write only to {tmp_path / 'cell'} and " in log
    _, log = run(preload, trusted=True)
    assert (tmp_path / "outside").exists()
    assert "sandbox" not in log


@FORKED
def test_where_the_system_permits_no_sandbox_stages_run_and_say_so(run, monkeypatch, preload):
    monkeypatch.setattr(sandbox, "unavailable", lambda: "unshare: Operation not permitted")
    done, log = run(preload)
    assert PERMITTED in done
    assert '"outside": ""' in done
    assert "# no sandbox: this system does not permit one (unshare: Operation not permitted); the model file was only checked" in log  # fmt: skip
    finding = doctor._sandbox()
    assert finding.found == "none (unshare: Operation not permitted)"
    assert "container" in finding.advice


def test_a_socket_that_another_process_closes_meanwhile_is_no_obstacle(monkeypatch, tmp_path):
    sandbox.unavailable.cache_clear()
    permitted = sandbox.unavailable()
    monkeypatch.setattr(sandbox, "_sockets", lambda: [str(tmp_path / "closed")])
    sandbox.unavailable.cache_clear()
    assert sandbox.unavailable() == permitted


def test_a_system_that_refuses_namespaces_permits_no_sandbox(monkeypatch):
    def unshare(flags: int) -> int:
        return -1

    monkeypatch.setattr(sandbox._libc, "unshare", unshare, raising=False)
    sandbox.unavailable.cache_clear()
    try:
        assert sandbox.unavailable().startswith("[Errno ")
        assert "unshare" in sandbox.unavailable()
    finally:
        sandbox.unavailable.cache_clear()


@in_sandbox
def test_a_process_in_a_sandbox_cannot_undo_it_and_dies_with_its_parent(tmp_path):
    def escape() -> bytes:
        process.die_with_parent()
        sandbox.enter([str(tmp_path)])
        done = []
        for again in (False, True):
            if again:  # in new namespaces it has all capabilities
                done.append(str(sandbox._libc.unshare(sandbox._NEW_USER | sandbox._NEW_MOUNTS)))
            for flags in (0, sandbox._AT_RECURSIVE):
                try:
                    sandbox._set_read_only("/", False, flags)
                    done.append("writable")
                except OSError as error:
                    done.append(error.strerror.partition(":")[0])
        number = sandbox.ctypes.c_int()
        sandbox._libc.prctl(2, sandbox.ctypes.byref(number), 0, 0, 0)  # PR_GET_PDEATHSIG
        return f"{done} {number.value}".encode()

    code, said = process.forked(escape)
    refused = ["mount_setattr /"] * 2
    expected = [f"{[*refused, unshared, *refused]} {int(signal.SIGKILL)}" for unshared in ("0", "-1")]  # fmt: skip
    assert (code, said.decode() in expected) == (0, True), said


def test_a_stage_does_not_delete_what_the_server_has_made():
    """In a sandbox it could not, and would print so."""
    request = fork_server.Request("keyword", [], dict(os.environ))

    def stage() -> bytes:
        fork_server.leave(fork_server.run_stage(request))

    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as registered:
        other = tempfile.TemporaryDirectory()  # as torch.distributed
        atexit.register(other.cleanup)
        registered.callback(atexit.unregister, other.cleanup)
        code, _ = process.forked(stage)
        assert code == 0
        assert os.path.isdir(folder)
        assert os.path.isdir(other.name)
        other.cleanup()


def test_a_forked_stage_names_no_other_packages_to_import(monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(fork_server, "preload", lambda names: asked.extend(names) or [])
    with socket.socket() as listener:
        server = fork_server.Server(listener, os.getpid())
        server._import(["antigravity", *fork_server.ON_DEMAND[:1], "os"])
    assert asked == [fork_server.ON_DEMAND[0]]
