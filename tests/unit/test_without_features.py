"""A feature is a package that can be taken out: its folder, its rules and its name in the list."""

import re
import shutil
import subprocess
import sys

import pytest

from scripts.features import registry
from tests.checkouts import ROOT, environment

pytestmark = pytest.mark.full


@pytest.fixture
def copy(tmp_path):
    """The files of the project that a run reads."""
    for name in ("scripts", "workflow", "models", "envs"):
        shutil.copytree(ROOT / name, tmp_path / name)  # with its bytecode
    for name in ("Snakefile", "config.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "profiles").symlink_to("workflow/profiles")
    return tmp_path


@pytest.mark.parametrize("name", registry.NAMES)
def test_the_rest_plans_its_run_without_a_feature(name, copy):
    shutil.rmtree(copy / "scripts/features" / name)
    (copy / f"workflow/rules/{name}.smk").unlink(missing_ok=True)
    file = copy / "scripts/features/registry.py"
    listed = file.read_text(encoding="utf-8")
    file.write_text(re.sub(rf'"{name}",? ?', "", listed, count=1), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "-n", "results/latency.csv", "--config", "models=conv"],
        cwd=copy,
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "rule time_group" in done.stdout + done.stderr
    if name != "report":
        code = "from scripts.features import registry; registry.load(); "
        code += "from scripts.features.report.web import views; assert views.loaded(); "
        code += "from scripts.records import row_set; assert row_set.loaded()"
        shown = subprocess.run([sys.executable, "-c", code], cwd=copy, capture_output=True, text=True)  # fmt: skip
        assert shown.returncode == 0, shown.stderr[-2000:]
