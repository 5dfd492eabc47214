"""uv's package index where only pip has one, and messages for what uv needs and does not find."""

import hashlib
import os
import platform
import sys
from pathlib import Path

import pytest

from scripts.run import installing
from tests.unit.test_bisect import wheel

SECRET = "https://me:secret@mirror.example/token/simple"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    """A user without settings of pip or uv, whose variables are restored after a test."""
    home = tmp_path / "home"
    home.mkdir()
    for name in (*installing._OF_UV, *installing._OF_PIP.values(), "UV_INDEX_STRATEGY", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):  # fmt: skip
        monkeypatch.setenv(name, "")  # so that what a test sets is removed
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(home)
    installing.take_over_indexes.cache_clear()
    installing.find_python.cache_clear()
    return home


def variables() -> dict[str, str]:
    """What uv's variables for indexes are once pip's indexes have been taken over."""
    names = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_STRATEGY")
    installing.take_over_indexes()
    return {name: value for name in names if (value := os.environ.get(name))}


def test_uv_finds_packages_in_the_index_of_pip(tmp_path, monkeypatch):
    packages = tmp_path / "simple/only-here"
    packages.mkdir(parents=True)
    name = wheel(packages, "only-here", "1.5").name
    (packages / "index.html").write_text(f'<a href="{name}">{name}</a>')
    monkeypatch.setenv("PIP_INDEX_URL", packages.parent.as_uri())
    monkeypatch.setenv("UV_OFFLINE", "1")
    assert "only-here==1.5" in installing.resolve(["only-here"], "3.11")


def test_pips_variables_are_taken_over_and_a_line_names_the_hosts_alone(monkeypatch, capsys):
    monkeypatch.setenv("PIP_INDEX_URL", SECRET)
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://key@a.example/simple\n file:///srv/simple")
    for _ in range(2):
        assert variables() == {
            "UV_DEFAULT_INDEX": SECRET,
            "UV_INDEX": "https://key@a.example/simple file:///srv/simple",
            "UV_INDEX_STRATEGY": "unsafe-best-match",
        }
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert "takes pip's: mirror.example, a.example, /srv/simple (UV_DEFAULT_INDEX" in said


def test_pips_files_count_as_pip_reads_them(home, monkeypatch):
    file = home / "pip.conf"
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    file.write_text(
        "[install]\nindex-url = https://b.example\n[global]\nindex-url = https://a.example\n"
    )
    assert variables()["UV_DEFAULT_INDEX"] == "https://b.example"
    monkeypatch.delenv("UV_DEFAULT_INDEX")
    monkeypatch.delenv("UV_INDEX", raising=False)  # of the machine's own files
    monkeypatch.setenv("PIP_INDEX_URL", "https://c.example")
    installing.take_over_indexes.cache_clear()
    assert variables()["UV_DEFAULT_INDEX"] == "https://c.example"


def test_an_index_of_pips_variables_is_found_without_pip(monkeypatch):
    monkeypatch.setattr(sys, "executable", "false")
    monkeypatch.setenv("PIP_INDEX_URL", "https://a.example")
    assert variables() == {"UV_DEFAULT_INDEX": "https://a.example"}


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        ('index-url = "https://u.example"', True),
        ('[[index]]\nurl = "https://u.example"', True),
        ("pip.no-index = true", True),
        ('cache-dir = "/tmp"', False),
    ],
)
def test_an_index_in_a_file_of_uv_stays(home, monkeypatch, text, stays):
    monkeypatch.setenv("PIP_INDEX_URL", SECRET)
    monkeypatch.delenv("UV_NO_CONFIG")
    file = home / ".config/uv/uv.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert variables() == ({} if stays else {"UV_DEFAULT_INDEX": SECRET})


@pytest.mark.parametrize(
    "of_user", [{}, *({"PIP_INDEX_URL": SECRET, name: "1"} for name in ("UV_INDEX_URL", "UV_NO_INDEX"))]
)  # fmt: skip
def test_uv_keeps_its_index_where_a_variable_names_one_or_pip_has_none(
    monkeypatch, capsys, of_user
):
    for name, value in of_user.items():
        monkeypatch.setenv(name, value)
    assert variables() == {}
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("lacking", ["package", "program"])
def test_without_uv_a_line_says_how_to_install_it(monkeypatch, capsys, lacking):
    if lacking == "package":
        monkeypatch.setitem(sys.modules, "uv", None)
    else:
        monkeypatch.setattr("uv.find_uv_bin", Path("/nowhere/uv").read_text)
    with pytest.raises(SystemExit):
        installing.uv()
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(f"error[installer]: {sys.executable} has no uv")
    assert "-m pip install -r requirements.txt" in said


def test_a_python_that_is_neither_here_nor_downloaded_ends_in_a_line_of_advice(
    tmp_path, monkeypatch, capfd
):
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("UV_PYTHON_PREFERENCE", "only-managed")
    monkeypatch.setenv("UV_OFFLINE", "1")
    with pytest.raises(SystemExit):
        installing.install(tmp_path / "env", ["3.11", "3.12"], [])
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("error[installer]: there is no Python 3.11 (or 3.12) on this machine")
    assert "UV_PYTHON_INSTALL_MIRROR" in last


def test_where_the_pinned_python_is_not_the_next_one_that_is_here_is_taken(
    tmp_path, monkeypatch, capfd
):
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    here = ".".join(platform.python_version_tuple()[:2])
    assert installing.make_empty(tmp_path / "env", ["3.98", "3.99", here]) == here
    assert installing.python_of(tmp_path / "env").startswith(f"{here}.")
    said = capfd.readouterr()
    assert (said.out, said.err) == (f"there is no Python 3.98; Python {here} is taken\n", "")


def test_another_failure_to_make_an_environment_is_not_a_python_that_is_missing(
    tmp_path, monkeypatch, capfd
):
    here = ".".join(platform.python_version_tuple()[:2])
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit):
        installing.make_empty(tmp_path / "file/env", [here, "3.99"])
    assert "there is no Python" not in (said := capfd.readouterr().err)
    assert "Failed to create virtual environment" in said


def test_a_python_counts_if_each_package_has_a_wheel_for_it_whose_hash_is_in_the_lock(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "wheels"))
    any_python = wheel(tmp_path / "wheels", "a", "1")
    for python in ("cp311-cp311", "cp312-cp312"):
        wheel(tmp_path / "wheels", "b", "1").rename(
            tmp_path / f"wheels/b-1-{python}-manylinux_2_17_x86_64.whl"
        )
    lock = installing.resolve(["a", "b"], "3.11", options=["--universal"])
    assert installing.without_wheels(lock, "3.11") == set()
    assert installing.without_wheels(lock, "3.12") == set()
    assert installing.without_wheels(lock, "3.13") == {"b"}
    hashed = hashlib.sha256(any_python.read_bytes()).hexdigest()
    assert installing.without_wheels(lock.replace(hashed, "0" * 64), "3.11") == {"a"}
