"""fingerprint: what code a stage is made of, and which recorded outcomes are to be tried again."""

import pytest

from scripts.lib import fingerprint, outcome
from scripts.lib.outcome import FAILED, Outcome, Usage

SOURCES = {
    "stage": "import os\nfrom scripts.lib import direct\n",
    "lib/direct": "def f():\n    import scripts.lib.deep\n",
    "lib/deep": "from scripts.lib.deepest import VALUE\n",
    "lib/deepest": "VALUE = 1\n",
    "lib/unrelated": "from scripts import stage\n",
    "exporters/chosen": "",
}


@pytest.fixture
def root(tmp_path):
    for name, text in SOURCES.items():
        path = tmp_path / "scripts" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("module", "counts"),
    [
        ("stage", True),
        ("lib/direct", True),
        ("lib/deep", True),
        ("lib/deepest", True),
        ("lib/unrelated", False),
        ("exporters/chosen", False),
    ],
)
def test_a_fingerprint_changes_with_what_a_stage_imports_and_nothing_else(root, module, counts):
    before = fingerprint.of_modules(["scripts.stage"], root)
    (root / f"scripts/{module}.py").write_text(SOURCES[module] + "# changed\n")
    assert (fingerprint.of_modules(["scripts.stage"], root) != before) == counts


def test_a_module_named_beside_the_stage_counts_too(root):
    modules = ["scripts.stage", "scripts.exporters.chosen"]
    before = fingerprint.of_modules(modules, root)
    assert before != fingerprint.of_modules(modules[:1], root)
    assert before == fingerprint.of_modules(reversed(modules), root)
    (root / "scripts/exporters/chosen.py").write_text("# changed\n")
    assert fingerprint.of_modules(modules, root) != before


def test_a_renamed_module_is_another_fingerprint(root, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "scripts/lib").mkdir(parents=True)
    (other / "scripts/stage.py").write_text("from scripts.lib import direct\n")
    before = fingerprint.of_modules(["scripts.stage"], other)
    (other / "scripts/stage.py").write_text("from scripts.lib import renamed\n")
    assert fingerprint.of_modules(["scripts.stage"], other) != before


@pytest.fixture
def recorded(tmp_path):
    """Record an outcome and return the path of its status file."""

    def record(status: str, code: str):
        path = tmp_path / "status.json"
        ended = Outcome(status, "compile", "c", fingerprint=code)
        outcome.write(path, ended, Usage(0, 0))
        return path

    return record


@pytest.mark.parametrize(
    ("status", "code", "retry", "due"),
    [
        ("ok", "old", (), "old"),
        ("ok", "new", (), "new"),
        ("ok", "old", ("timeout",), "old"),
        ("ok", "new", ("all",), "new+1"),
        ("ok", "old+1", (), "old+1"),
        *[(status, "old", (), "new") for status in (*FAILED, "unavailable", "skipped")],
        *[(status, "new", (), "new") for status in (*FAILED, "unavailable", "skipped")],
        ("error", "new", ("timeout",), "new"),
        ("timeout", "new", ("timeout",), "new+1"),
        ("timeout", "new", ("all",), "new+1"),
        ("timeout", "new+1", ("timeout",), "new+2"),
        ("timeout", "new+9", ("timeout",), "new+10"),
        ("timeout", "new+1", (), "new+1"),
        ("timeout", "old+1", (), "new"),
    ],
)
def test_done_and_tried_cells_keep_their_fingerprint_and_others_get_a_new_one(
    recorded, status, code, retry, due
):
    assert fingerprint.due(recorded(status, code), "new", retry) == due


@pytest.mark.parametrize("content", [None, "", "{}"])
def test_a_cell_with_nothing_readable_on_record_is_due(tmp_path, content):
    path = tmp_path / "status.json"
    if content is not None:
        path.write_text(content)
    assert fingerprint.due(path, "new") == "new"


@pytest.mark.parametrize("code", ["new", "old", "old+3"])
@pytest.mark.parametrize("before", outcome.STATUSES)
@pytest.mark.parametrize("after", ["ok", "timeout"])
def test_a_forced_retry_runs_once_whatever_it_ends_in(recorded, before, code, after):
    forced = fingerprint.due(recorded(before, code), "new", {"all"})
    assert forced != code
    assert fingerprint.due(recorded(after, forced), "new") == forced


def test_a_forced_run_of_a_done_cell_is_recorded_under_the_code_that_ran(recorded):
    forced = fingerprint.due(recorded("ok", "old"), "new", {"all"})
    assert forced.split("+")[0] == "new"
