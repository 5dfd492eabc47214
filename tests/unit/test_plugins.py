"""The declarations of exporters and runtimes: complete in every file, and read without their packages."""

import importlib.metadata
import sys
from types import SimpleNamespace

import pytest
import yaml

from scripts.config import plugins
from scripts.core.checkout import ROOT
from scripts.run import environments
from tests import declarations

FILES = {
    folder: sorted(path for path in (ROOT / folder).glob("*.py") if path.name != "__init__.py")
    for folder in (plugins.EXPORTERS, plugins.RUNTIMES)
}


def test_every_file_declares_all_that_is_its_own():
    assert [e.name for e in plugins.exporters()] == [p.stem for p in FILES[plugins.EXPORTERS]]
    assert [r.name for r in plugins.runtimes()] == [p.stem for p in FILES[plugins.RUNTIMES]]
    assert {"torch", "frontend"} <= {
        called for e in plugins.exporters() for called in e.versions.values()
    }


def test_a_version_that_a_baseline_reports_is_one_that_its_environment_pins():
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    for name, entry in config["baselines"].items():
        declared = plugins.runtime(entry["runtime"]).versions
        assert declared.keys() <= environments.pins(entry["env"]).keys(), name
    for name, entry in config["frontends"].items():
        declared = plugins.exporter(entry["exporter"]).versions
        assert declared.keys() <= environments.pins(entry["env"]).keys(), name


def test_takes_and_lazy_may_be_left_out(tmp_path):
    (tmp_path / plugins.RUNTIMES).mkdir(parents=True)
    text = declarations.runtime(TAKES=None, LAZY=None)
    (tmp_path / plugins.RUNTIMES / "x.py").write_text(text)
    read = plugins.runtime("x", tmp_path)
    assert read.takes == ()
    assert not read.lazy


@pytest.mark.parametrize("name", sorted(declarations.RUNTIME.keys() - {"TAKES", "LAZY"}))
def test_a_declaration_that_is_missing_or_no_literal_is_named_with_its_file(tmp_path, name):
    folder = tmp_path / plugins.RUNTIMES
    folder.mkdir(parents=True)
    path = folder / "x.py"
    path.write_text(declarations.runtime(**{name: None}))
    with pytest.raises(plugins.DeclarationError) as missing:
        plugins.runtime("x", tmp_path)
    assert str(missing.value).startswith(f"{path}: {name}: found nothing, expected ")
    path.write_text(declarations.runtime(**{name: None}) + f"{name} = compute()\n")
    with pytest.raises(plugins.DeclarationError, match="found an expression, expected "):
        plugins.runtime("x", tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DEVICES", ("cpu", "tpu")),
        ("DEVICES", "cpu"),
        ("TESTS", ["eval"]),
        ("TAKES", ("flags",)),
        ("LAZY", 1),
        ("VERSIONS", {"torch": None}),
        ("MEMORY_FACTOR", 0),
        ("FORKABLE", "yes"),
    ],
)
def test_a_declaration_of_another_kind_is_refused_with_what_was_found(tmp_path, name, value):
    (tmp_path / plugins.RUNTIMES).mkdir(parents=True)
    (tmp_path / plugins.RUNTIMES / "x.py").write_text(declarations.runtime(**{name: value}))
    with pytest.raises(plugins.DeclarationError) as refused:
        plugins.runtime("x", tmp_path)
    assert f"x.py: {name}: found {value!r}, expected " in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"), [("OPTIONS", {"a": "b"}), ("REWRITES", {1: ("x",)}), ("VERSIONS", ())]
)
def test_an_exporters_declarations_are_held_to_their_kinds_too(tmp_path, name, value):
    (tmp_path / plugins.EXPORTERS).mkdir(parents=True)
    (tmp_path / plugins.EXPORTERS / "x.py").write_text(declarations.exporter(**{name: value}))
    with pytest.raises(plugins.DeclarationError, match=f"x.py: {name}: found "):
        plugins.exporter("x", tmp_path)


def test_a_file_that_is_not_python_is_named(tmp_path):
    (tmp_path / plugins.EXPORTERS).mkdir(parents=True)
    (tmp_path / plugins.EXPORTERS / "x.py").write_text("a\nb = (\n")
    with pytest.raises(plugins.DeclarationError, match=r"x.py: .* in line 2"):
        plugins.exporter("x", tmp_path)


def test_a_version_is_the_imported_packages_own_and_else_the_distributions(monkeypatch):
    installed = {"numpy": "n", "pytest": "p"}
    monkeypatch.setitem(sys.modules, "numpy", SimpleNamespace(__version__="2.0+cpu"))
    monkeypatch.setitem(sys.modules, "pytest", SimpleNamespace())
    assert plugins.installed(installed) == {
        "n": "2.0+cpu",
        "p": importlib.metadata.version("pytest"),
    }
