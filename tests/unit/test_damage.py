"""Damaged files of other stages: a stage does not read them, the stage that made them is recorded as
damaged, and a full disk is an outcome or one line."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from scripts.core import atomic, process
from scripts.run import fingerprint, progress
from scripts.stages import check_expectations
from scripts.stages import supervise as command_line
from scripts.supervise import outcome, supervise
from scripts.supervise.job import Job
from tests.unit.conftest import job_in

MAKE = "import sys; open(sys.argv[1], 'wb').write(bytes(range(256)) * 4)"
READ = "import sys; open(sys.argv[1], 'w').write('read')"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def job(stage: str, code: str, *arguments: str, artifact: str = "", **more) -> Job:
    folder = Path(f"results/{stage}/m/f")
    made = Path(artifact) if artifact else folder / f"{stage}.bin"
    command = [sys.executable, "-c", code, str(made), *arguments]
    more |= {"artifacts": [made], "fingerprint": "code", "due": "code"}
    return job_in(folder, command, stage=stage, cell="m/f", **more)


PROGRAM = Path("results/export/m/f/export.bin")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:300])


def dues() -> dict[str, str]:
    return {
        stage: fingerprint.due(f"results/{stage}/m/f/status.json", "code")
        for stage in ("export", "compile")
    }


@pytest.mark.parametrize("words", [[str(PROGRAM)], [f"--program={PROGRAM}"]])
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut, "it has 300 bytes and was made with 1024"),
        (lambda path: path.write_bytes(b""), "it has 0 bytes and was made with 1024"),
        (Path.unlink, "it cannot be read (No such file or directory)"),
    ],
)
def test_a_damaged_file_is_not_read_and_its_stage_is_to_be_made_again(damage, said, words):
    assert supervise.run(job("export", MAKE)).status == "ok"
    status = Path("results/export/m/f/status.json")
    as_made = status.read_bytes()
    assert supervise.run(job("compile", READ, *words)).status == "ok"
    damage(PROGRAM)
    result = supervise.run(job("compile", "raise SystemExit('must not run')", *words))
    assert (result.status, result.blocked_by) == ("skipped", "export m/f")
    above = outcome.read(status)
    assert (above.status, above.reason) == ("damaged", "damaged-file")
    assert above.detail == result.detail
    assert above.detail == f"{PROGRAM} is damaged: {said}; the next run makes it again"
    assert Path("results/compile/m/f/compile.bin").read_bytes() == b""
    assert dues()["export"] == "code+1"
    other = supervise.run(job("baseline", READ, upstream=[status]))
    assert (other.blocked_by, other.detail) == (result.blocked_by, result.detail)
    # The next run.
    supervise.run(job("export", MAKE))
    assert status.read_bytes() == as_made, "the same outcome, to the byte"
    assert supervise.run(job("compile", READ, *words)).status == "ok"
    assert dues() == {"export": "code", "compile": "code"}


def test_the_artifact_of_an_earlier_run_is_no_input_of_its_own_stage():
    supervise.run(job("export", MAKE))
    cut(PROGRAM)
    assert supervise.run(job("export", MAKE)).status == "ok"


@pytest.mark.parametrize("usage", ["", '{"seconds": 1', "[]"])
def test_a_usage_that_cannot_be_read_is_damage_too(usage):
    supervise.run(job("export", MAKE))
    outcome.usage_path(PROGRAM).write_text(usage)
    result = supervise.run(job("compile", READ, str(PROGRAM)))
    assert (result.status, result.reason) == ("skipped", "damaged-file")
    assert "usage.json: not " in result.detail


@pytest.mark.parametrize("status", ["", '{"status": "ok", "sta', None])
def test_a_status_upstream_that_cannot_be_read_blocks_and_is_named(status):
    supervise.run(job("export", MAKE))
    above = Path("results/export/m/f/status.json")
    above.unlink() if status is None else above.write_text(status)
    result = supervise.run(job("compile", READ, upstream=[above]))
    assert (result.status, result.reason) == ("skipped", "damaged-file")
    assert result.blocked_by == "export m/f"
    assert str(above) in result.detail


def test_a_stage_that_failed_has_no_digests_and_wrong_results_do():
    def made(code: int) -> set[str]:
        supervise.run(job("export", f"{MAKE}; raise SystemExit({code})"))
        return set(outcome.read_usage(PROGRAM).artifacts)

    assert [made(code) for code in (0, 1, 4)] == [{"export.bin"}, set(), {"export.bin"}]


def test_check_names_every_byte_that_has_changed_and_the_stage_is_made_again(monkeypatch, capsys):
    def check() -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["check", "--files"])
        return check_expectations.main(), capsys.readouterr().out

    large = "import os, sys; open(sys.argv[1], 'wb').write(bytes(3 << 20) + b'x' * 17)"
    supervise.run(job("export", large))
    supervise.run(job("compile", MAKE))
    data = PROGRAM.read_bytes()
    for at in (0, atomic.DIGEST_CHUNK_BYTES, len(data) - 1):
        PROGRAM.write_bytes(data)
        supervise.run(job("export", large))
        assert check() == (0, "results: all files are those that were written\n")
        PROGRAM.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        what = f"its {len(data)} bytes are not the ones that were made (CRC-32)"
        assert check() == (1, f"{PROGRAM} is damaged: {what}; the next run makes it again\n")
        assert dues() == {"export": "code+1", "compile": "code"}


@pytest.fixture
def elsewhere():
    """A folder on another file system than the tests' own."""
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == Path.cwd().stat().st_dev:
        pytest.skip("no second file system here")
    folder = other / f"vmfbench-{os.getpid()}"
    folder.mkdir()
    yield folder
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    folder.rmdir()


def test_an_artifact_may_be_on_another_file_system_than_its_status(elsewhere):
    """An environment's list of packages is in .venvs/, its status in results/."""
    Path("results").symlink_to(elsewhere / "results")
    (elsewhere / "results").mkdir()
    target = Path("env/versions.json")
    result = supervise.run(job("env", MAKE, artifact=str(target)))
    assert result.status == "ok", result.detail
    assert len(target.read_bytes()) == 1024
    assert os.listdir(target.parent) == ["versions.json"]
    assert supervise.run(job("compile", READ, str(target))).status == "ok"


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_copy_to_a_full_file_system_is_a_row_and_leaves_nothing_half_written(
    elsewhere, monkeypatch
):
    target = elsewhere / "env" / "versions.json"
    target.parent.mkdir()
    target.write_text("old")
    monkeypatch.setattr(atomic.shutil, "copyfile", full)
    result = supervise.run(job("env", MAKE, artifact=str(target)))
    assert (result.status, result.reason) == ("error", "disk-full")
    assert os.listdir(target.parent) == ["versions.json"]


def test_what_a_killed_process_has_left_half_written_is_deleted():
    made = job("export", MAKE).status_path.parent
    made.mkdir(parents=True)
    for folder in (made, Path("results")):
        (folder / ".latency.csv.7.partial").write_text("half")
    supervise.run(job("export", MAKE))
    progress.RunLog().start(types.SimpleNamespace(to_json=dict))
    assert not list(Path("results").rglob(".*.partial"))


def test_a_log_on_a_full_disk_is_lost_and_its_stage_is_not():
    log = job("export", MAKE).log_path
    log.parent.mkdir(parents=True)
    log.symlink_to("/dev/full")
    assert supervise.run(job("export", f"print('hello'); {MAKE}")).status == "ok"


def test_an_outcome_that_cannot_be_written_is_one_line_and_the_next_run_makes_it(
    monkeypatch, capsys
):
    made = job("export", MAKE)
    words = ["supervise", "--stage", "export", "--cell", "m/f", "--timeout", "20"]
    words += ["--memory", "4000", "--status", str(made.status_path), "--log", str(made.log_path)]
    python = Path("python")
    python.write_text(f"#!/bin/sh\nfor out; do :; done\necho made > $out/{PROGRAM.name}\n")
    python.chmod(0o755)
    words += ["--artifact", str(PROGRAM), "--version", "1", "--run", "export", "--request", "{}"]
    words += ["--python", str(python.absolute())]
    monkeypatch.setattr(sys, "argv", words)
    with monkeypatch.context() as while_full:
        while_full.setattr(outcome.atomic, "write_json", full)
        assert command_line.main() == os.EX_IOERR
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith("error: export m/f: its outcome cannot be recorded ([Errno 28] No sp")
    assert not made.status_path.exists()
    assert not (made.status_path.parent / ".scratch").exists()
    assert process.descendants(os.getpid()) == []
    assert command_line.main() == 0
    assert outcome.read(made.status_path).status == "ok"


def test_a_journal_on_a_full_disk_costs_no_outcome(capsys):
    result = supervise.run(job("export", MAKE, journal=Path("/dev/full")))
    assert result.status == outcome.read(Path("results/export/m/f/status.json")).status == "ok"
    assert "lacks a line of m/f" in capsys.readouterr().err


@pytest.fixture
def small_disk():
    """results/ on a file system of 1 MiB."""
    Path("results").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "results"]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("may not mount a file system here")
    yield Path("results")
    subprocess.run(["umount", "--lazy", "results"], check=True)


def test_a_disk_that_fills_up_is_a_row_and_the_next_run_repairs_it(small_disk):
    fill = small_disk / "other.bin"
    fill.write_bytes(b"x" * 500_000)
    large = "import sys; open(sys.argv[1], 'wb').write(b'x' * 900_000)"
    quiet = f"import os\ntry:\n    {large}\nexcept OSError:\n    os._exit(1)"
    for code in (large, quiet):
        result = supervise.run(job("export", code))
        assert (result.status, result.reason) == ("error", "disk-full"), code
        assert PROGRAM.read_bytes() == b""
    fill.unlink()
    assert dues()["export"] == "code+1"
    assert supervise.run(job("export", large)).status == "ok"
