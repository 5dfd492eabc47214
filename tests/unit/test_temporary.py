"""temporary: folders that are deleted even if their process was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from scripts.core import temporary
from scripts.run import progress

HOLD = """
import sys, time
from scripts.core import temporary
with temporary.folder("held") as path:
    print(path, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """A machine's folder for temporary files, which is empty."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv(temporary.MACHINE, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_folder_is_deleted_at_its_end(machine):
    with temporary.folder("kind") as path:
        (path / "below").mkdir()
        assert path.parent == machine
        assert path.name.startswith("vmfbench-kind-")
    assert list(machine.iterdir()) == []


def test_the_next_run_deletes_what_a_killed_process_has_left_and_nothing_else(machine):
    for name in ("vmfbench-checkout", "other"):  # of others
        (machine / name).mkdir()
    holder = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
    held = Path(holder.stdout.readline().strip())
    temporary.clear()
    assert held.is_dir(), "it is in use"
    holder.kill()
    holder.communicate()
    assert held.is_dir()

    class Matrix:
        def to_json(self):
            return {}

    os.chdir(machine)
    progress.RunLog().start(Matrix())
    assert sorted(path.name for path in machine.iterdir()) == ["other", "results", "vmfbench-checkout"]  # fmt: skip


def test_a_folder_that_is_cleared_before_it_is_locked_is_made_again(machine, monkeypatch):
    locked, flock = [], temporary.fcntl.flock

    def late(file, how):
        if not locked:
            monkeypatch.setattr(temporary.fcntl, "flock", flock)
            temporary.clear()
        locked.append(file)
        flock(file, how)

    monkeypatch.setattr(temporary.fcntl, "flock", late)
    with temporary.folder("kind") as path:
        assert list(machine.iterdir()) == [path]


def test_a_process_and_its_children_have_a_folder_of_their_own(machine):
    ask = [sys.executable, "-c", "import tempfile; print(tempfile.gettempdir())"]
    with temporary.own("stage"):
        own = Path(tempfile.gettempdir())
        assert own.parent == machine
        said = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
        assert said == f"{own}\n"
        assert temporary.machine() == str(machine)
        with temporary.folder("worker") as path:
            assert path.parent == machine
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(machine)
    assert list(machine.iterdir()) == []


def test_without_room_for_a_folder_the_machines_is_used(machine, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(temporary.tempfile, "mkdtemp", full)
    with temporary.own("stage"):
        assert tempfile.gettempdir() == str(machine)
    assert "No space left on device" in capsys.readouterr().err
