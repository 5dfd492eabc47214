"""Settings of every test, and the checkouts that real runs are made in.

Property tests draw the same examples each run, and store none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from scripts.core import checkout
from scripts.features import registry
from tests.checkouts import (
    ENVIRONMENTS,
    LIMITS,
    QUICK,
    ROOT,
    Checkout,
    end_forks,
    made_environments,
    make_here,
)

settings.register_profile(
    "reproducible",
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.register_profile("mutations", settings.get_profile("reproducible"), max_examples=2000)
settings.load_profile("reproducible")
os.environ.pop(checkout.ENVIRONMENTS, None)  # the environments of tests are in this checkout
registry.load()


NEEDS_ENVIRONMENTS = "test_five_steps"
"""The file of tests/cluster whose stages are no stubs."""
LONGEST = "test_main_line"
"""The file of tests/pipeline that takes longest."""
SLOW_UNIT_TESTS = (
    "test_batch_host",
    "test_batch_stage",
    "test_batch_timing",
    "test_batch_together",
    "test_command_line",
    "test_folders",
    "test_group",
    "test_same_jobs",
    "test_tuning_search",
    "test_worker",
    "test_wrong_settings",
)
"""They fill the time until the environments are made."""


class ByRun(LoadScopeScheduling):
    """Which tests the processes of pytest share out: a file goes to one of them, since its tests go on
    from one run; all of tests/cluster to one, since a machine has one Slurm."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "tests/cluster" if file.startswith("tests/cluster/") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByRun:
    return ByRun(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full",
        action="store_true",
        help="all tests; without it, the unit tests, and each stage and feature once on the real toolchain",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the processes, the first mostly waits for clusters, the second makes the environments and goes on with the longest
    file, and the others have slow unit tests meanwhile. The other unit tests come last and fill what time is left. Without
    --full, tests that are marked `full` are left out, and all but those marked `main` of pipelines and clusters."""

    def folder(item: pytest.Item) -> str:
        return item.path.relative_to(ROOT / "tests").parts[0]

    def is_full(item: pytest.Item) -> bool:
        main = folder(item) == "unit" or item.get_closest_marker("main")
        return not main or bool(item.get_closest_marker("full"))

    if not config.getoption("--full"):
        left_out = [item for item in items if is_full(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not is_full(item)]

    def place(item: pytest.Item) -> int:
        if folder(item) == "cluster":
            return int(item.path.stem == NEEDS_ENVIRONMENTS)
        if folder(item) == "unit":
            return 3 if item.path.stem in SLOW_UNIT_TESTS else 5
        return 2 if item.path.stem == LONGEST else 4

    items.sort(key=place)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Unit tests look at all processes below this one."""
    if "unit" in item.path.parts:
        end_forks()


@pytest.fixture(scope="session")
def environments() -> Path:
    """The stage environments, made by the workflow itself in this checkout."""
    return made_environments(*ENVIRONMENTS)


@pytest.fixture(scope="session")
def machine_limits(environments) -> Path:
    """The folder of the machine's limits, which are measured once for all tests."""
    make_here(f"{LIMITS}/limits.json")
    return ROOT / LIMITS


@pytest.fixture(scope="session")
def make_checkout(environments, machine_limits, tmp_path_factory):
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
        # With bytecode, which the first processes of each checkout would have to make again.
        cached = [str(file.relative_to(ROOT)) for file in (ROOT / "scripts").rglob("*.pyc")]
        for file in [*filter(None, listed.stdout.split("\0")), *cached]:
            # Times come along: an env file newer than its environment would remake that.
            if (ROOT / file).exists():
                (path / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, path / file, follow_symlinks=False)
        (path / ".venvs").mkdir()
        for env in ENVIRONMENTS:
            (path / ".venvs" / env).symlink_to(environments / env)
            shutil.copytree(ROOT / "results/env" / env, path / "results/env" / env)
        shutil.copytree(machine_limits, path / LIMITS)
        made = Checkout(path)
        # Neither expectations nor targets name models that a test may leave out, and every
        # frontend is in a run.
        shipped = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
        for entry in shipped["targets"].values():
            entry.pop("models", None)
            entry.pop("overrides", None)
        for entry in shipped["frontends"].values():
            entry.pop("default", None)
        whole = {key: shipped[key] for key in ("targets", "frontends")}
        made.configure(**({"expect": {}, "measure": QUICK} | whole | config))
        return made

    return make
