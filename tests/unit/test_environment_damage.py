"""A stage that fails in an environment in which a file is missing or cut says which one, and is repeated."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from scripts.measure.timing.turns import MemberEnded
from scripts.supervise import outcome, supervise
from scripts.supervise.diagnose import Diagnosis
from scripts.supervise.environment_damage import (
    ENVIRONMENT_MARK,
    environment_damage,
    with_environment_damage,
)
from scripts.supervise.members import Member, Process
from tests.unit.conftest import job_in

PYTHON = Path(".venvs/iree/bin/python")
SITE = Path(".venvs/iree/lib/python3.11/site-packages")
REMEDY = "delete .venvs/iree, and the next run makes it again"
RECORD = """../../../bin/tool,sha256=x,1
iree/compiler.so,sha256=x,10
"iree/a,b.py",sha256=x,4
shared/__init__.py,sha256=x,7
iree-3.13.dist-info/INSTALLER,sha256=x,99
iree-3.13.dist-info/RECORD,,
"""


@pytest.fixture(autouse=True)
def whole(tmp_path, monkeypatch):
    """The environment as it was made."""
    monkeypatch.chdir(tmp_path)
    for name, size in {"iree/compiler.so": 10, "iree/a,b.py": 4, "shared/__init__.py": 3}.items():
        (SITE / name).parent.mkdir(parents=True, exist_ok=True)
        (SITE / name).write_bytes(b"x" * size)
    for name, record in (("iree-3.13", RECORD), ("other-1", "shared/__init__.py,sha256=x,3\n")):
        (SITE / f"{name}.dist-info").mkdir()
        (SITE / f"{name}.dist-info/RECORD").write_text(record)
    PYTHON.parent.mkdir()
    PYTHON.symlink_to(sys.executable)
    Path(".venvs/iree", ENVIRONMENT_MARK).write_text("abc\n")


DAMAGES = {
    "gone": (lambda: shutil.rmtree(".venvs/iree"), ".venvs/iree is gone; the next run makes it"),
    "python": (PYTHON.unlink, f"{PYTHON} is missing; {REMEDY}"),
    "deleted": ((SITE / "iree/a,b.py").unlink, f"{SITE}/iree/a,b.py is missing; {REMEDY}"),
    "cut": (
        lambda: (SITE / "iree/compiler.so").write_bytes(b"x"),
        f"{SITE}/iree/compiler.so has 1 bytes and was made with 10; {REMEDY}",
    ),
}


def fail() -> outcome.Outcome:
    command = [str(PYTHON), "-c", "import no_such_package"]
    return supervise.run(job_in(Path("results"), command))


def test_a_failure_in_a_whole_environment_is_the_stages_own():
    assert environment_damage(str(PYTHON)) == ""
    assert fail().reason == "missing-package"


@pytest.mark.parametrize("name", DAMAGES)
def test_a_failure_in_a_damaged_environment_names_the_file_and_what_to_do(name):
    damage, said = DAMAGES[name]
    damage()
    ended = fail()
    assert (ended.status, ended.reason) == ("error", "damaged-environment")
    assert ended.detail.startswith(said)
    assert ended.is_passing, "the next run repeats it"


def test_a_member_that_is_timed_says_so_too(tmp_path):
    PYTHON.unlink()
    member = Member("m", (str(PYTHON), "-c", "pass"), tmp_path / "log.txt", forked=False)
    with pytest.raises(MemberEnded) as ended:
        Process(member, 0, tmp_path / "server.txt", 10, lambda: None)
    assert ended.value.reason == "damaged-environment"
    assert REMEDY in ended.value.detail


def test_a_cut_compiled_file_is_known_by_what_python_says():
    said = Diagnosis("error", outcome.DAMAGED_ENVIRONMENT, "EOFError: marshal data too short")
    assert REMEDY in with_environment_damage(said, str(PYTHON)).detail


@pytest.mark.parametrize("python", ["python", sys.executable])
def test_other_pythons_are_not_looked_at(python):
    (SITE / "iree/compiler.so").unlink()
    assert environment_damage(python) == ""


@pytest.mark.parametrize(
    ("status", "reason"), [("unsupported", "operator"), ("error", "disk-full")]
)
def test_what_says_nothing_of_the_environment_is_left_as_it_is(status, reason):
    (SITE / "iree/compiler.so").unlink()
    said = Diagnosis(status, reason, "what")
    assert with_environment_damage(said, str(PYTHON)) == said
