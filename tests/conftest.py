"""Settings of every test, and the checkouts that real runs are made in.

Property tests draw the same examples each run, and store none.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from benchmarks import tutorial
from scripts.core import checkout
from scripts.tools import registry
from tests.checkouts import (
    ENVIRONMENTS,
    LIMITS,
    QUICK,
    ROOT,
    SHIPPED,
    Checkout,
    end_forks,
    made_environments,
    make_here,
    shipped,
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
# A process of pytest-xdist has it, and tables would be narrower there.
os.environ.pop("COLUMNS", None)
registry.load()


FIRST = ("test_slurm", "test_main_line")
LONGEST = (
    "test_torch_xla",
    "test_onnx_files",
    "test_fx_rewrites",
    "test_user_models",
    "test_other_runtimes",
    "test_groups",
    "test_faults",
    "test_kill",
    "test_reported_cases",
    "test_language_models",
    "test_known_miscompiles",
    "test_dynamic",
    "test_suite_models",
    "test_verification",
    "test_wrong_candidates",
    "test_fuzz",
    "test_report_in_browser",
)
"""The other files of tests/pipeline that take longest, the longest one first; some of them mostly wait."""

ON_SLURM = ("test_slurm", "test_five_steps")


class ByRun(LoadScopeScheduling):
    """Which tests the processes of pytest share out: a file goes to one of them, since its tests go on
    from one run; what needs Slurm goes to one, since a machine has one Slurm."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "slurm" if Path(file).stem in ON_SLURM else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByRun:
    return ByRun(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full",
        action="store_true",
        help="all tests but those of a release; without it, the unit tests, and the stages of a row on the real toolchain",
    )
    parser.addoption("--release", action="store_true", help="all tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the processes, the first mostly waits for Slurm, the second makes the environments and goes on with the longest
    file, and the others have what needs no environment meanwhile: else they would wait. Short pipelines come last, so that all processes
    end at about the same time. Without --full, tests that are marked `full` are left out, and all but those marked `main` of pipelines and
    clusters. Tests that are marked `release` run only with --release."""

    def folder(item: pytest.Item) -> str:
        return item.path.relative_to(ROOT / "tests").parts[0]

    def is_chosen(item: pytest.Item) -> bool:
        if config.getoption("--release"):
            return True
        if item.get_closest_marker("release"):
            return False
        main = folder(item) == "unit" or item.get_closest_marker("main")
        return config.getoption("--full") or bool(main and not item.get_closest_marker("full"))

    config.hook.pytest_deselected(items=[item for item in items if not is_chosen(item)])
    items[:] = [item for item in items if is_chosen(item)]

    def place(item: pytest.Item) -> int:
        name = item.path.stem
        if name in FIRST:
            return FIRST.index(name)
        if folder(item) != "pipeline":
            return len(FIRST)
        return len(FIRST) + 1 + (LONGEST.index(name) if name in LONGEST else len(LONGEST))

    items.sort(key=place)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Unit tests that fork no processes look at all processes below this one."""
    forking = {"Checkout", "run_module"} & vars(item.module).keys()
    if "unit" in item.path.parts and not forking:
        end_forks()


@pytest.fixture(scope="session")
def selected(request):
    """A function that returns, of the names that a file runs, those of this session: `of_release` are left out without --release."""

    def of(names: Iterable[str], of_release: Collection[str]) -> list[str]:
        everything = request.config.getoption("--release")
        return [name for name in names if everything or name not in of_release]

    return of


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
        tutorial.copy_checkout(path)
        # With bytecode, which the first processes of each checkout would have to make again.
        for file in (ROOT / "scripts").rglob("*.pyc"):
            copied = path / file.relative_to(ROOT)
            copied.parent.mkdir(exist_ok=True)
            shutil.copy2(file, copied)
        shutil.copytree(machine_limits, path / LIMITS)
        made = Checkout(path)
        # Neither expectations nor targets name models that a test may leave out, and every
        # frontend is in a run.
        targets = {
            name: {key: value for key, value in entry.items() if key not in ("models", "overrides")}
            for name, entry in SHIPPED["targets"].items()
        }
        defaults = {"expect": {}, "measure": QUICK, "targets": targets}
        defaults["frontends"] = shipped("frontends", *SHIPPED["frontends"])
        made.configure(**(defaults | config))
        return made

    return make
