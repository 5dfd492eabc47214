"""checkout: paths and commands of the project, from its own folder and from another folder."""

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.cli import run
from scripts.core import checkout
from scripts.core.requests import Folders
from scripts.run import environments, installing
from scripts.stages import make_env
from scripts.supervise.environment_damage import ENVIRONMENT_MARK
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


def test_messages_have_a_command_that_the_user_has(monkeypatch):
    assert checkout.run_command("results/latency.csv") == "vmfbench run"
    assert (
        checkout.run_command("results/latency.csv", "models=vit")
        == "vmfbench run --config models=vit"
    )
    started: list[list[str]] = []
    monkeypatch.setattr(run, "snakemake", started.append)
    said = checkout.run_command("profile code", "models=vit tests=train", "--force")
    monkeypatch.setattr(sys, "argv", shlex.split(said)[1:])
    run.main()
    assert started == [
        ["--cores", "all", "profile", "code", "--config", "models=vit", "tests=train", "--force"]
    ]


def test_no_message_spells_the_command_itself():
    spelled = re.compile(
        r"snakemake (--|-n|results/|all\b|profile|code|compile_time|coverage|dumps)"
    )
    for path in (ROOT / "scripts").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = {
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        # Docstrings speak to readers of the code.
        texts -= {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found = [node.value for node in texts if spelled.search(node.value)]
        assert found == [] or path.name == "checkout.py", path


@pytest.mark.parametrize("named", ["", "shared"])
def test_environments_of_a_wheel_are_in_the_cache_or_a_named_folder_by_their_pins(
    elsewhere, monkeypatch, named
):
    monkeypatch.setattr(checkout, "INSTALLED", True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(elsewhere / "cache"))
    monkeypatch.setenv(checkout.ENVIRONMENTS, named)
    folder = elsewhere / (named or "cache/vmfbench/envs") / environments.pins_digest("iree")
    assert environments.prefix("iree") == str(folder / "iree")
    assert environments.prefix("iree@old") == str(folder / "iree@old")
    assert environments.packages_file("iree") == "results/env/iree/versions.json"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "/home/me")
    wanted = elsewhere / named if named else Path("/home/me/.cache/vmfbench/envs")
    assert checkout.shared_environments() == wanted


def test_a_checkout_with_a_named_folder_makes_what_is_gone_from_it(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv(checkout.ENVIRONMENTS, str(tmp_path))
    prefix = Path(environments.prefix("iree"))
    assert prefix.is_relative_to(tmp_path)
    assert environments.packages_file("iree") == "results/env/iree/versions.json"
    assert environments.Environments().is_gone("iree")
    prefix.mkdir(parents=True)
    (prefix / ENVIRONMENT_MARK).write_text(environments.pins_digest("iree"))
    assert not environments.Environments().is_gone("iree")


@pytest.fixture
def vmfbench(elsewhere, tmp_path_factory):
    """A function that runs the command of a package as a wheel installs it, and returns what it says."""
    site = tmp_path_factory.mktemp("site")
    code = site / "vmfbench/_workflow"
    code.mkdir(parents=True)
    shutil.copyfile(ROOT / "scripts/cli/launcher/__init__.py", code.parent / "__init__.py")
    for name in ("Snakefile", "config.yaml", "envs", "models", "scripts", "workflow"):
        (code / name).symlink_to(ROOT / name)

    def run(*words: str, first: str = "") -> str:
        done = subprocess.run(
            [sys.executable, "-c", f"{first}\nimport vmfbench; vmfbench.main()", *words],
            env=os.environ | {"PYTHONPATH": str(site), "XDG_CACHE_HOME": str(elsewhere / "cache")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.stdout.replace(str(code), "<code>")

    return run


@pytest.mark.parametrize("verb", ["lock", "docs", "suites"])
def test_an_installed_wheel_changes_no_file_of_its_own(vmfbench, verb):
    said = f"`vmfbench {verb}` writes into a clone, but <code> is an installed wheel"
    assert vmfbench(verb) == f"error: {said}: run it in a clone\n"


def test_stages_that_a_verb_of_an_installed_wheel_starts_find_the_code(vmfbench):
    start = "subprocess.run([sys.executable, '-m', 'scripts.stages.clean', '--help'])"
    first = f"import atexit, subprocess, sys; atexit.register(lambda: {start})"
    assert "usage: python -m scripts.stages.clean" in vmfbench("--help", first=first)


def test_an_installed_wheel_says_where_its_parts_are(vmfbench, tmp_path):
    def said() -> tuple[str, str]:
        lines = dict(line.split(maxsplit=1) for line in vmfbench("doctor").splitlines())
        return lines["workflow"], lines["environments"].replace(str(tmp_path), "")

    assert said() == ("<code>", "/cache/vmfbench/envs")
    for name in ("0123456789ab", environments.pins_digest("iree")):
        (tmp_path / "cache/vmfbench/envs" / name / "iree").mkdir(parents=True)
    advice = "folders of other versions of vmfbench: 1; delete what none uses"
    assert said() == ("<code>", f"/cache/vmfbench/envs → {advice}")


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
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), "/of/theirs"]))
    assert checkout.prefix()[1] == f"PYTHONPATH={ROOT}:/of/theirs", "each place once"


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A function that runs make_env for an environment and returns the list of installations."""
    installs = []
    prefix = tmp_path / ".venvs/e"

    def install(folder: Path, *_: object) -> None:
        installs.append(folder)
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        (folder / "bin/python").touch()

    monkeypatch.setattr(installing, "install", install)
    monkeypatch.setattr(installing, "installed", lambda _: {"a": "1"})
    monkeypatch.setattr(installing, "what_to_install", lambda _: ("3.11", []))

    def make(pins: str) -> list[Path]:
        request = make_env.EnvRequest(env_file=Path("e.yaml"), prefix=prefix, pins=pins)
        make_env.make_env(request, Folders(tmp_path, tmp_path))
        assert (tmp_path / "pins.txt").read_text() == f"{pins}\n"
        assert environments.whole(prefix) == pins
        return installs

    return make


def test_an_environment_of_these_pins_is_kept_unless_it_is_damaged(made, tmp_path):
    """As where a new checkout of the same lock is newer than the environment."""
    assert len(made("one")) == 1
    assert len(made("one")) == 1
    assert len(made("two")) == 2
    (tmp_path / ".venvs/e/bin/python").unlink()
    assert len(made("two")) == 3


def test_an_environment_that_another_run_makes_is_waited_for(made, tmp_path):
    prefix = tmp_path / ".venvs/e"
    with installing.alone(prefix):
        code = (
            "import sys; from pathlib import Path; from scripts.run import installing\n"
            "with installing.alone(Path(sys.argv[1])): print('alone')"
        )
        other = subprocess.Popen(
            [sys.executable, "-c", code, str(prefix)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert other.stdout is not None
        assert other.stdout.readline() == f"waiting: another run is making {prefix}\n"
    assert other.communicate()[0] == "alone\n"
