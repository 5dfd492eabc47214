"""clean: the files that each step deletes from a results folder; not during another run."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.stages import clean

MADE = (
    "results/reference/a/weights.irpa",
    "results/reference/a/golden.npz",
    "results/reference/a/signature.json",
    "results/reference/b/weights.irpa",
    "results/gradients/a/golden.npz",
    "results/gradients/a/signature.json",
    "results/baseline/a/openvino/eval/cache/converted/model.bin",
    "results/baseline/a/openvino/eval/verification.json",
    "results/verify/a/f/t/inputs/0.bin",
    "results/verify/a/f/t/verification.json",
    "results/dumps/a/eager/eval/1/profile.txt",
    "results/profile/a/cpu/eval/profiles.json",
    "results/compile/a/f/t/module.vmfb",
    "results/latency.csv",
    "results/history/1.jsonl.zst",
    "results/history/1.json",
)


@pytest.fixture
def step(tmp_path, monkeypatch):
    """A function that runs a step and returns the files that it deleted."""
    monkeypatch.chdir(tmp_path)
    for name in MADE:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("x" * 5000)

    def run(*arguments: str) -> set[str]:
        monkeypatch.setattr(sys, "argv", ["clean", *arguments])
        assert clean.main() == 0
        return {name for name in MADE if not Path(name).exists()}

    return run


def test_each_step_deletes_what_it_says_and_no_row(step, capsys):
    dumps = {name for name in MADE if name.startswith(("results/dumps/", "results/profile/"))}
    weights = {
        name for name in MADE if name.endswith((".irpa", "golden.npz", "model.bin", "0.bin"))
    }
    assert step("dumps") == dumps
    assert step("weights", "--models") == dumps | weights
    said = capsys.readouterr().out.splitlines()
    assert said[1].startswith("weights: 6 files and folders deleted, ")
    assert step("weights") == dumps | weights  # nothing is left, which is not an error


def test_a_selection_limits_a_step(step):
    assert step("weights", "--models", "b", "c") == {"results/reference/b/weights.irpa"}


def test_a_link_is_taken_away_and_what_it_leads_to_stays(step, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").touch()
    Path("results/dumps/linked").symlink_to(tmp_path / "kept")
    step("dumps")
    assert (tmp_path / "kept/file").exists()
    assert not Path("results/dumps/linked").is_symlink()


@pytest.fixture
def held(step):
    """A function that starts a process which holds the lock of the results."""
    Path("results/logs").mkdir()
    with Path("results/logs/run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def by(pid: int) -> None:
            lock.truncate(0)
            lock.write(str(pid))
            lock.flush()

        yield by


def test_nothing_is_deleted_beside_another_run(step, held, capsys):
    held(2**22 + 1)
    with pytest.raises(SystemExit):
        step("weights")
    assert "another run (process 4194305) is writing to results/" in capsys.readouterr().err
    assert all(Path(name).exists() for name in MADE)


def test_the_run_that_a_step_is_of_does_not_keep_it_from_its_work(step, held):
    held(os.getppid())
    assert step("dumps")


def test_shared_environments_are_not_deleted_from_another_folder(step, capsys):
    with pytest.raises(SystemExit):
        step("envs")
    assert "the environments are shared by the runs of all folders" in capsys.readouterr().err


def test_environments_of_the_stages_are_deleted_and_the_drivers_stays(step, monkeypatch, tmp_path):
    monkeypatch.setattr(clean.checkout, "ROOT", tmp_path)
    for name in ("envs/iree.yaml", ".venvs/iree/bin/python", ".venvs/driver/bin/python"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    step("envs")
    assert not Path(".venvs/iree").exists()
    assert Path(".venvs/driver/bin/python").exists()


def test_environments_in_a_folder_of_the_user_are_deleted_from_anywhere_unless_they_are_used(
    step, monkeypatch, tmp_path, capsys
):
    monkeypatch.setenv(clean.checkout.ENVIRONMENTS, str(tmp_path / "shared"))
    of_these_pins = Path(clean.environments.prefix("iree"))
    of_others = tmp_path / "shared/0123456789ab/iree"
    for folder in (of_these_pins, of_others):
        folder.mkdir(parents=True)
    used_by = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()", of_these_pins / "bin/python"], stdin=subprocess.PIPE)  # fmt: skip
    with used_by, pytest.raises(SystemExit):
        step("envs")
    said = f"process {used_by.pid} of a run in another folder uses them; wait for it or stop it"
    assert said in capsys.readouterr().err
    step("envs")
    assert not of_these_pins.exists()
    assert of_others.exists()
