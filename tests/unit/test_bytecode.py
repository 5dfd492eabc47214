"""Bytecode of an environment is copied from another one where the source is the same file, and compiled elsewhere."""

import importlib.util
import os
import py_compile
import subprocess
import sys
from pathlib import Path

from scripts.run import bytecode, installing


def compiled(source: Path) -> Path:
    return Path(importlib.util.cache_from_source(os.fspath(source)))


def test_only_whole_bytecode_of_the_same_file_is_copied(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for name in ("same", "rewritten", "cut", "package/inner"):
        file = theirs / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("VALUE = 1\n")
        py_compile.compile(os.fspath(file))
        link = ours / f"{name}.py"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.hardlink_to(file)
    (ours / "rewritten.py").unlink()
    (ours / "rewritten.py").write_text("VALUE = 2\n")
    (ours / "new.py").write_text("")
    cut = compiled(theirs / "cut.py")
    cut.write_bytes(cut.read_bytes()[:-1])
    assert bytecode.copy(ours, theirs) == 2
    made = sorted(path for path in ours.rglob("*.pyc"))
    assert made == sorted(compiled(ours / name) for name in ("same.py", "package/inner.py"))
    for path in made:
        assert (
            path.read_bytes() == compiled(theirs / "same.py").read_bytes() or "inner" in path.name
        )
        assert not path.samefile(theirs / path.relative_to(ours)), "damage would be that of both"
    assert bytecode.copy(ours, theirs) == 0, "what is there is left alone"


def test_what_stages_import_is_compiled_and_nothing_else(tmp_path):
    packages = tmp_path / "packages"
    for name in ("torchao/__init__.py", "torchao/used.py", "torchao/unused.py", "other.py"):
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text("")
    (packages / "torchao/__init__.py").write_text("from torchao import used\n")
    (packages / "numpy").mkdir()
    (packages / "numpy/__init__.py").write_text("raise ImportError('broken')\n")
    code = (
        f"import sys, sysconfig; sys.path.insert(0, {os.fspath(packages)!r}); "
        "from scripts.run import bytecode; "
        f"sys.argv, sys.prefix = ['bytecode'], {os.fspath(tmp_path)!r}; "
        f"sysconfig.get_path = lambda _: {os.fspath(packages)!r}; bytecode.main()"
    )
    unset = {"PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | unset,
    )
    assert "note: numpy: ImportError: broken" in done.stdout
    made = {
        path.relative_to(packages).parent.parent / path.name.partition(".")[0]
        for path in packages.rglob("*.pyc")
    }
    assert made == {Path("torchao/__init__"), Path("torchao/used"), Path("numpy/__init__")}


def test_the_other_environments_are_found_in_a_checkout_and_in_a_shared_folder(tmp_path):
    for folder in (".venvs/iree", ".venvs/torch-mlir", "0123/iree", "4567/torch-mlir"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "pyvenv.cfg").touch()
    (tmp_path / ".venvs/half").mkdir()
    found = installing.made_beside(tmp_path / ".venvs/iree")
    assert [path.relative_to(tmp_path).as_posix() for path in found] == [
        ".venvs/torch-mlir",
        "0123/iree",
        "4567/torch-mlir",
    ]
