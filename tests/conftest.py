"""Settings of every test, and the checkouts that real runs are made in.

Property tests draw the same examples each run, and store none.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, settings

from tests.checkouts import ENVIRONMENTS, ROOT, Checkout, made_environments

settings.register_profile(
    "reproducible",
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("reproducible")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Which tests two processes share out: a file of real runs goes to one of them, since its tests
    go on from one run; all of tests/cluster to one, since a machine has one Slurm.

    Those mostly wait, so they come first, beside the runs that make the environments; unit tests
    come last and fill what time is left.
    """
    order = {"cluster": 0, "pipeline": 1, "unit": 2}
    folders = {item: item.path.relative_to(ROOT / "tests").parts[0] for item in items}
    items.sort(key=lambda item: order[folders[item]])
    for item in items:
        if folders[item] != "unit":
            group = item.path.stem if folders[item] == "pipeline" else folders[item]
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def environments() -> Path:
    """The stage environments, made by the workflow itself in this checkout."""
    return made_environments(*ENVIRONMENTS)


@pytest.fixture(scope="session")
def make_checkout(environments, tmp_path_factory):
    """A function that makes a checkout with the given models, targets and baselines."""

    def make(name: str, **config) -> Checkout:
        path = tmp_path_factory.mktemp(name)
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=ROOT,
            capture_output=True,
            check=True,
            text=True,
        )
        for file in filter(None, listed.stdout.split("\0")):
            # Times come along: an env file newer than its environment would remake that.
            if (ROOT / file).exists():
                (path / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, path / file, follow_symlinks=False)
        (path / ".venvs").mkdir()
        for env in ENVIRONMENTS:
            (path / ".venvs" / env).symlink_to(environments / env)
            shutil.copytree(ROOT / "results/env" / env, path / "results/env" / env)
        made = Checkout(path)
        # Neither expectations nor targets name models that a test may leave out, and every
        # frontend is in a run.
        shipped = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
        for entry in (*shipped["targets"].values(), *shipped["frontends"].values()):
            entry.pop("models", None)
            entry.pop("default", None)
        whole = {key: shipped[key] for key in ("targets", "frontends")}
        made.configure(**({"expect": {}} | whole | config))
        return made

    return make
