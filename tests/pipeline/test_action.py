"""action.yml on the real toolchain: a project whose pull request changes its model, and one that does not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.action_steps import Steps
from tests.checkouts import EAGER, ON_CPU, QUICK

pytestmark = pytest.mark.release

MODEL = """\
import torch


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 128)

    def forward(self, x):
        return torch.relu(self.first(x))


def get_model():
    return Small()


def get_dummy_input(batch_size=1):
    return torch.randn(batch_size * 8, 64)
"""
SLOWER = MODEL.replace("self.first(x))", "self.first(x)).cumsum(0)")
PYTHON = """\
#!/bin/bash
mkdir -p "$3/bin"
printf '#!/bin/bash\\n' > "$3/bin/pip"
printf '#!/bin/bash\\nPYTHONPATH=%s exec {python} -P -m scripts.cli "$@"\\n' "$ACTION" > "$3/bin/vmfbench"
chmod +x "$3/bin/pip" "$3/bin/vmfbench"
"""
"""Makes the driver's environment of the one that runs the tests."""


@pytest.fixture(scope="module")
def action(make_checkout, tmp_path_factory):
    """The action on a pull request that makes `text` of the model. As with a cache of GitHub, the results of the commit before are
    there from the second time on."""
    checkout = make_checkout("action", models={}, targets=ON_CPU, baselines=EAGER, measure=QUICK)
    folder = tmp_path_factory.mktemp("runner")
    python, project, temp, kept = (folder / n for n in ("python", "project", "temp", "kept"))
    python.write_text(PYTHON.replace("{python}", sys.executable))
    python.chmod(0o755)

    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *who, *words], cwd=project, check=True)

    def run(text: str) -> tuple[int, str]:
        for path in (project, temp):
            shutil.rmtree(path, ignore_errors=True)
        (project / "models").mkdir(parents=True)
        (project / "models/small.py").write_text(MODEL)
        git("init", "-q", "-b", "main", ".")
        git("add", "models")
        git("commit", "-qm", "1")
        git("update-ref", "refs/remotes/origin/main", "HEAD")
        git("checkout", "-qb", "mine")
        (project / "models/small.py").write_text(text)
        git("commit", "-qam", "2")
        if kept.exists():
            shutil.copytree(kept, temp / "vmfbench-kept", symlinks=True)
        words = "models/small.py --config frontends=torchmlir-stablehlo"
        steps = Steps(
            checkout.path,
            project,
            temp,
            {"run": words},
            "pull_request",
            used={"python": {"python-path": str(python)}},
            env={"GITHUB_BASE_REF": "main"},
        )
        code = steps.run()
        for name in ("results", ".snakemake/metadata"):
            if not (kept / name).exists():
                shutil.copytree(temp / "vmfbench-before" / name, kept / name, symlinks=True)
        comment = Path(steps.temp, "vmfbench-files", "comment.md")
        assert comment.exists(), steps.ran
        return code, comment.read_text()

    return run


def test_a_model_that_does_more_is_red_and_the_comment_names_the_dispatch(action):
    code, comment = action(SLOWER)
    assert code == 1
    assert "dispatches: " in comment
    assert "changes for the worse" in comment
    assert "| code of the model |" in comment
    assert "cumsum" in comment or " new" in comment


def test_a_comment_in_the_model_changes_nothing(action):
    code, comment = action(f"# A comment.\n{MODEL}")
    assert code == 0, comment
    assert "1 the same code, 0 changed" in comment
    assert "same code and versions, so the same program" in comment
    assert "no change for the worse" in comment
