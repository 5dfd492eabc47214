"""imports: the files that a module is made of, found without importing."""

import pytest

from scripts.core.python_source import closure, literal

FILES = {
    "a.py": "import b\nfrom p import c\nimport not_here",
    "b.py": "def f():\n    import d.e",
    "p/__init__.py": "from . import inner",
    "p/inner.py": "from .. import up\nfrom .deep.x import y",
    "p/c.py": "from .other import z",
    "p/other.py": "",
    "p/deep/x.py": "import a",
    "d/__init__.py": "",
    "d/e.py": "",
    "unrelated.py": "import a",
}


@pytest.fixture
def root(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_every_import_is_followed_absolute_relative_deferred_and_through_packages(root):
    found = {str(path.relative_to(root)) for path in closure(["a"], root)}
    assert found == FILES.keys() - {"unrelated.py"}


def test_only_what_is_to_be_followed_is(root):
    found = closure(["a"], root, lambda name: name.split(".")[0] == "b")
    assert {path.name for path in found} == {"a.py", "b.py"}


def test_a_file_that_does_not_parse_is_named(root):
    (root / "b.py").write_text("def (")
    with pytest.raises(SyntaxError) as error:
        closure(["a"], root)
    assert error.value.filename == str(root / "b.py")


def test_a_literal_may_have_an_annotation(tmp_path):
    file = tmp_path / "x.py"
    file.write_text("PLAIN = (1,)\nTYPED: dict[str, int] = {'a': 1}\nNONE: int\n")
    assert [literal(file, name, "-") for name in ("PLAIN", "TYPED", "NONE", "OTHER")] == [(1,), {"a": 1}, "-", "-"]  # fmt: skip
