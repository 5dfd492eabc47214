"""A Slurm for the session, and checkouts whose stages are stubs."""

from __future__ import annotations

import os

import pytest

from benchmarks import synthetic
from tests.cluster.slurm import Slurm, missing_daemons
from tests.cluster.stubs import Stubs


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """A Slurm of one node; skipped where none is installed, but in CI."""
    if (missing := missing_daemons()) and not os.environ.get("CI"):
        pytest.skip(f"no {missing[0]} here: apt-get install slurm-wlm munge")
    started = Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def make_stubs(tmp_path_factory):
    """A function that makes a checkout of stubs for a number of models."""

    def make(models: int, variables: dict[str, str]) -> Stubs:
        path = tmp_path_factory.mktemp("stubs")
        synthetic.make_checkout(path, models * synthetic.TARGETS)
        return Stubs(path, variables)

    return make
