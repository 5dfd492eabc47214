"""vmfbench lock --download: a folder from which an environment is made where there is no network."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.cli import lock as lock_envs
from scripts.core.requests import StageRequest
from scripts.run import environments, installing
from tests.unit.test_bisect import wheel

ROOT = Path(__file__).parents[2]
HERE = ".".join(platform.python_version_tuple()[:2])
ALONE = ["unshare", "--net", "--map-root-user"]


@pytest.fixture
def tiny(tmp_path, monkeypatch) -> Path:
    """The file of an environment of two packages, with a lock; `only` is for another Python than the pinned one."""
    index = tmp_path / "index"
    for name in ("a", "only"):
        wheel(index, name, "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(index))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    file = tmp_path / "envs/tiny.yaml"
    file.parent.mkdir()
    file.write_text(f"dependencies: [python={HERE}, pip, {{pip: [a==1]}}]")
    text = installing.resolve(
        ["a==1", f"only==1; python_version != '{HERE}'"], "3.11", options=["--universal"]
    )
    environments.lock_file(file).write_text(
        environments.with_lock_pythons(text, ["3.11", "3.12", "3.13"])
    )
    return file


def run(monkeypatch, *words: object) -> None:
    monkeypatch.setattr(sys, "argv", ["vmfbench lock", *map(str, words)])
    lock_envs.main()


def test_an_environment_is_made_without_a_network_from_what_was_downloaded(
    tiny, tmp_path, monkeypatch, capsys
):
    if subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("unshare may not make a network namespace here")
    folder = tmp_path / "files"
    run(monkeypatch, "--download", folder, "tiny")
    assert [file.name for file in folder.iterdir()] == ["a-1-py3-none-any.whl"]
    said = capsys.readouterr().out
    assert f"tiny, Python {HERE}: 1 packages" in said
    assert f"UV_OFFLINE=1 UV_FIND_LINKS={folder}" in said
    prefix = tmp_path / "tiny"
    fields = {"env_file": str(tiny), "prefix": str(prefix), "pins": "x"}
    request = StageRequest("scripts.stages.make_env", sys.executable, fields)
    request.write(tmp_path)
    done = subprocess.run(
        [*ALONE, *request.command(tmp_path)],
        env=os.environ | {"UV_FIND_LINKS": str(folder), "UV_CACHE_DIR": str(tmp_path / "new")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "versions.json").read_text()) == {"a": "1"}
    assert json.loads((tmp_path / "tools.json").read_text())["python"].startswith(HERE)


def test_files_for_several_pythons_share_a_folder(tiny, tmp_path, monkeypatch):
    run(monkeypatch, "--download", tmp_path / "files", "--pythons", "3.11,3.13")
    assert sorted(file.name for file in (tmp_path / "files").iterdir()) == [
        "a-1-py3-none-any.whl",
        "only-1-py3-none-any.whl",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tiny", "--pythons", "3.9"], "tiny.lock is not for Python 3.9: it is for "),
        (["tiny", "none"], "none.yaml: not found"),
        (["tiny", "--upgrade"], "--download takes the locks as they are"),
    ],
)
def test_what_cannot_be_downloaded_is_named_before_anything_is(
    tiny, tmp_path, monkeypatch, capsys, words, said
):
    with pytest.raises(SystemExit):
        run(monkeypatch, "--download", tmp_path / "files", *words)
    assert said in capsys.readouterr().err
    assert not (tmp_path / "files").exists()


def test_without_pip_it_is_said_how_to_get_it(tiny, tmp_path, monkeypatch, capsys):
    """An environment that uv or uvx makes has no pip."""
    monkeypatch.setattr(installing.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SystemExit):
        run(monkeypatch, "--download", tmp_path / "files", "tiny")
    said = f"{sys.executable} has no pip, which downloads; `"
    assert said in capsys.readouterr().err


def test_markers_of_a_lock_are_those_of_the_python_that_is_asked_for():
    hashes = f" \\\n    --hash=sha256:{'a' * 64} \\\n    --hash=sha256:{'b' * 64}\n"
    both = f"a==1{hashes}"
    lock = (
        f"# Made.\n# Pythons: 3.11\n{both}b==1 ; python_full_version < '3.12'{hashes}"
        f"    # via a\nc==1 ; sys_platform == 'win32'{hashes}"
    )
    assert environments.lock_for_python(lock, "3.12") == both
    assert environments.lock_for_python(lock, "3.11").startswith(f"{both}b==1{hashes}")
