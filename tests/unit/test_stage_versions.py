"""Whoever changes the code of a stage says whether failures may end otherwise now.

If they may, raise `version` of the stage (scripts/config/stages.py, or stages.py of its feature): the next run of a user repeats its
failures. `VMFBENCH_UPDATE=1 python -m pytest tests/unit/test_stage_versions.py` accepts the code as it is now. Comments,
docstrings and the form of a file do not count.
"""

import ast
import functools
import hashlib
import json
import os
from pathlib import Path

import pytest

from scripts.config.stages import STAGES
from scripts.core import python_source
from tests.checkouts import ROOT

DATA = Path(__file__).parent / "data/stage_code.json"
FOLDERS = {"{exporter}": "frontends.exporters", "{runtime}": "baselines"}
"""The folders of the modules that an entry of the configuration names."""


@functools.cache
def code_of(path: Path) -> str:
    """A hash of the code of a file, without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not is_text(each)]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def modules_of(stage: str) -> list[str]:
    """The modules of a stage, with all exporters or runtimes."""
    modules = []
    for module in STAGES[stage].modules:
        [folder] = [FOLDERS[name] for name in FOLDERS if name in module] or [""]
        names = [file.stem for file in (ROOT / "scripts" / folder).glob("[!_]*.py")]
        modules += [f"scripts.{folder}.{name}" for name in names] if folder else [module]
    return modules


def digest(stage: str) -> str:
    paths = sorted(python_source.of_project(modules_of(stage), ROOT))
    text = "".join(f"{path.relative_to(ROOT)} {code_of(path)}\n" for path in paths)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def test_a_stage_whose_code_has_changed_has_another_version_or_is_accepted_as_it_is():
    now = {name: f"{stage.version} {digest(name)}" for name, stage in STAGES.items()}
    if os.environ.get("VMFBENCH_UPDATE"):
        DATA.write_text(json.dumps(now, indent=1) + "\n")
    accepted = json.loads(DATA.read_text())
    changed = [name for name in now if now[name] != accepted.get(name)]
    if changed:
        pytest.fail(f"the code of these stages has changed: {', '.join(changed)}. {__doc__}")
    assert now.keys() == accepted.keys()
