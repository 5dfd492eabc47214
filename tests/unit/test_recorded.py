"""The recorded command of a stage, and its options."""

import json
from pathlib import Path

import pytest

from scripts.features.reproduce.case import NoCase, recorded


def test_options_and_values_are_those_of_the_command(tmp_path):
    path = tmp_path / "results/export/m/f/status.json"
    path.parent.mkdir(parents=True)
    command = """env PYTHONPATH=/x .venvs/e/bin/python -m scripts.stages.export_program --name m --options '{"a": 1}' --vmfb a b --ir-format text"""
    path.write_text(
        json.dumps({"status": "ok", "stage": "export", "cell": "m/f", "command": command})
    )
    found = recorded(tmp_path, "export", "m/f")
    assert found.python == ".venvs/e/bin/python"
    assert found.options["--vmfb"] == ["a", "b"]
    assert found.words("--options", "--name") == ["--name", "m", "--options", '{"a": 1}']


def test_a_stage_without_a_command_says_what_to_do():
    with pytest.raises(NoCase, match="run the cell again"):
        recorded(Path("/nowhere"), "export", "m/f")
