"""checkout: paths and commands of the project, from its own folder and from another folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.core import checkout
from scripts.run import environments, installing
from scripts.stages import make_env
from tests.checkouts import ROOT


@pytest.fixture
def elsewhere(tmp_path, monkeypatch) -> Path:
    """A working folder with folders that have the names of the project's folders."""
    for name in ("scripts", "models"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('not of the project')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return tmp_path


def test_in_its_own_folder_files_and_commands_are_as_they_are(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert checkout.path("envs/iree.yaml") == "envs/iree.yaml"
    assert checkout.prefix() == []
    assert environments.packages_file("iree") == ".venvs/iree/versions.json"
    assert not environments.Environments().is_gone("iree")


def test_elsewhere_files_are_absolute(elsewhere):
    assert checkout.path("envs/iree.yaml") == str(ROOT / "envs/iree.yaml")
    assert environments.prefix("iree") == str(ROOT / ".venvs/iree")
    assert environments.Environments().lock_files("iree") == [str(ROOT / "envs/iree.lock")]
    assert environments.packages_file("iree") == "results/env/iree/versions.json"


@pytest.mark.parametrize("theirs", ["", "/of/theirs"])
def test_elsewhere_commands_find_the_project_and_then_what_the_user_added(
    elsewhere, monkeypatch, theirs
):
    monkeypatch.setenv("PYTHONPATH", theirs)
    code = "import json, sys, scripts; print(json.dumps([scripts.__file__, sys.path]))"
    done = subprocess.run(
        [*checkout.prefix(), sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    file, path = json.loads(done.stdout)
    assert file == str(ROOT / "scripts/__init__.py")
    assert path[: 1 + bool(theirs)] == [str(ROOT), *filter(None, [theirs])]


def test_a_command_of_a_command_has_each_place_once(elsewhere, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), "/of/theirs"]))
    assert checkout.prefix()[1] == f"PYTHONPATH={ROOT}:/of/theirs"


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A function that runs make_env for an environment and returns the list of installations."""
    installs = []
    prefix = tmp_path / ".venvs/e"

    def install(folder: Path, *_: object) -> None:
        installs.append(folder)
        (folder / "bin").mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(installing, "install", install)
    monkeypatch.setattr(installing, "installed", lambda _: {"a": "1"})
    monkeypatch.setattr(installing, "what_to_install", lambda _: ("3.11", []))

    def make(pins: str, *options: str) -> list[Path]:
        out = [f"--out-versions={tmp_path / 'versions.json'}", f"--out-pins={tmp_path / 'pins'}"]
        command = ["make_env", "--env-file=e.yaml", f"--prefix={prefix}", f"--pins={pins}"]
        monkeypatch.setattr(sys, "argv", [*command, *out, *options])
        make_env.main()
        assert (tmp_path / "pins").read_text() == f"{pins}\n"
        assert environments.whole(prefix) == pins
        return installs

    return make


def test_a_shared_environment_is_kept_where_it_is_of_the_pins(made):
    assert len(made("one")) == 1
    assert len(made("one", "--reuse")) == 1
    assert len(made("two", "--reuse")) == 2
    assert len(made("two")) == 3  # in the checkout's folder, a run always makes it


def test_an_environment_that_another_run_makes_is_waited_for(made, tmp_path):
    prefix = tmp_path / ".venvs/e"
    with installing.alone(prefix) as waited:
        assert not waited
        code = (
            "import sys; from pathlib import Path; from scripts.run import installing\n"
            "with installing.alone(Path(sys.argv[1])) as waited: print('waited', waited)"
        )
        other = subprocess.Popen(
            [sys.executable, "-c", code, str(prefix)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert other.stdout is not None
        assert other.stdout.readline() == f"waiting: another run is making {prefix}\n"
    assert other.communicate()[0] == "waited True\n"


def test_an_environment_without_a_mark_is_known_by_the_record_of_its_run(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    folder = tmp_path / ".venvs/e"
    folder.mkdir(parents=True)
    assert environments.whole(folder) == ""
    record = tmp_path / environments.made_of("e")
    record.parent.mkdir(parents=True)
    record.write_text("digest\n")
    assert environments.whole(folder) == ""
    (folder / "versions.json").write_text("{}\n")
    assert environments.whole(folder) == "digest"
    (folder / "versions.json").write_text("")  # the installation failed
    assert environments.whole(folder) == ""
