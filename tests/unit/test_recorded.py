"""The recorded request of a stage, which other stages are run by."""

import sys
from pathlib import Path

import pytest

from scripts.core.requests import StageRequest
from scripts.run.recorded import NoCase, recorded

OTHER = """
import json, pathlib, sys
fields = json.load(open(sys.argv[2]))["fields"]
print("printed")
pathlib.Path(sys.argv[4], "said.json").write_text(json.dumps(fields))
"""


def test_another_stage_is_run_with_fields_of_the_request(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "other.py").write_text(OTHER)
    (tmp_path / "python").symlink_to(sys.executable)
    folder = tmp_path / "results/export/m/f"
    StageRequest("scripts.stages.export_program", "python", {"name": "m", "x": 1}).write(folder)
    found = recorded(tmp_path, "export", "m/f")
    fields = found.request.only("name", "none") | {"file": Path("p")}
    log = tmp_path / "log.txt"
    assert found.run("other", fields, tmp_path, log) == 0
    assert (tmp_path / "said.json").read_text() == '{"name": "m", "file": "p"}'
    assert log.read_text() == "printed\n"


def test_a_stage_without_a_request_says_what_to_do():
    with pytest.raises(NoCase, match="run the cell again"):
        recorded(Path("/nowhere"), "export", "m/f")
