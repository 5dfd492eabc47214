"""Modules compiled before a fork: the present contents of the file are executed."""

from __future__ import annotations

import importlib
import sys

import pytest

from scripts.supervise import compiled


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "compiled_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "broken.py").write_text("def (")
    (folder / "module.py").write_text("value = 1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "path_hooks", list(sys.path_hooks))
    monkeypatch.setattr(compiled, "_code", {})
    yield folder
    for name in [n for n in sys.modules if n.startswith("compiled_package")]:
        del sys.modules[name]
    sys.path_importer_cache.clear()


def test_what_is_compiled_is_not_compiled_again(package, monkeypatch):
    compiled.compile_all([package])
    compiled.use([package])
    code = compile("value = 'from memory'", "module.py", "exec")
    source = (package / "module.py").read_bytes()
    compiled._code[str(package / "module.py")] = source, code
    assert importlib.import_module("compiled_package.module").value == "from memory"


def test_a_file_that_has_changed_is_read_again(package):
    compiled.compile_all([package])
    compiled.use([package])
    (package / "module.py").write_text("value = 2")
    assert importlib.import_module("compiled_package.module").value == 2


def test_what_is_no_python_fails_when_it_is_imported(package):
    compiled.compile_all([package])
    compiled.use([package])
    with pytest.raises(SyntaxError):
        importlib.import_module("compiled_package.broken")
