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


def test_all_but_the_tests_of_packages_is_compiled(tmp_path):
    for name in ("package/inner.py", "package/tests/test_inner.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("VALUE = 1\n")
    code = (
        "import sys, sysconfig; from scripts.run import bytecode; "
        f"sys.argv, sys.prefix = ['bytecode'], {os.fspath(tmp_path.parent)!r}; "
        f"sysconfig.get_path = lambda _: {os.fspath(tmp_path)!r}; bytecode.main()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert [*tmp_path.rglob("*.pyc")] == [compiled(tmp_path / "package/inner.py")]


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
