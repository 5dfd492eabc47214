"""config.yaml: what is shipped passes its own checks, and its keys are documented."""

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml

from scripts.lib import matrix, settings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "configuration.md"


@pytest.fixture
def config() -> dict:
    return yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))


def test_the_shipped_configuration_and_every_file_it_names_are_sound(config):
    declared, selections = settings.load(config, [ROOT / "config.yaml"])
    found = matrix.expand(declared, selections, ROOT)
    assert {path.stem for path in (ROOT / "models").glob("[!_]*.py")} <= set(found.models)
    assert {model.suite for model in found.models.values()} == {"vmfbench"}


def test_every_expectation_matches_some_cell(config):
    found = matrix.expand(config, {}, ROOT)
    cells = ["/".join(part.name for part in cell) for cell in found.cells()]
    cells += ["/".join(part.name for part in cell) for cell in found.baseline_cells()]
    assert [p for p in config["expect"] if not any(fnmatchcase(c, p) for c in cells)] == []


def keys_of(schema: dict) -> set[str]:
    """Every key that the schema knows, at any depth."""
    found = set(schema.get("properties", {}))
    for value in schema.values():
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict):
                found |= keys_of(inner)
    return found


@pytest.mark.skipif(not PAGE.exists(), reason="docs/configuration.md is not written yet")
@pytest.mark.parametrize("key", sorted(keys_of(json.loads(settings.SCHEMA.read_text()))))
def test_every_key_of_the_configuration_is_documented(key):
    page = PAGE.read_text(encoding="utf-8")
    assert re.search(rf"^## {key}$|`[^`\n]*\b{key}\b[^`\n]*`", page, re.MULTILINE)
