"""kill -9 of a whole run at random moments: the next run completes without losing results."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.checkouts import (
    DRIVER,
    EAGER,
    ON_CPU,
    environment,
    keep_models,
    run_module,
    without_timings,
)

KILLS = 2
SEED = 20261121
LINE = ("--cores", "8", "results/latency.csv", "--config", "frontends=torchmlir-stablehlo")


@pytest.fixture(scope="module")
def make_run(make_checkout):
    def make(name):
        checkout = make_checkout(name, models={}, targets=ON_CPU, baselines=EAGER)
        keep_models(checkout, "conv")
        return checkout

    return make


@pytest.fixture(scope="module")
def undisturbed(make_run):
    """A run that ends, and what a second one beside it said."""
    checkout = make_run("undisturbed")
    start = time.monotonic()
    first = started(checkout)
    lock = checkout.path / "results/logs/run.lock"
    while first.poll() is None and not (lock.exists() and lock.read_text()):
        time.sleep(0.1)
    # A process of its own: a fork waits until the packages of its environments are imported.
    checkout.second = run_module(DRIVER, "snakemake", *LINE, cwd=checkout.path, fork=False, merged=True)  # fmt: skip
    checkout.named = f"another run (process {first.pid})"
    assert first.wait() == 0
    checkout.length = time.monotonic() - start
    return checkout


def started(checkout) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "snakemake", *LINE],
        cwd=checkout.path,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )


def test_a_second_run_beside_the_first_is_refused(undisturbed):
    assert undisturbed.second.returncode != 0
    assert undisturbed.named in undisturbed.second.stdout


def test_a_run_killed_again_and_again_ends_like_one_left_alone(undisturbed, make_run):
    killed = make_run("killed")
    moments = random.Random(SEED)
    for attempt in range(KILLS):
        run = started(killed)
        # Between the first import and a little past what is left of the run.
        time.sleep(moments.uniform(0.5, max(2.0, undisturbed.length * (1 - attempt / KILLS))))
        # Every second time Snakemake alone, else its whole process group.
        kill = os.kill if attempt % 2 else os.killpg
        kill(run.pid, signal.SIGKILL)
        run.wait()
        assert_nothing_runs_in(killed.path)

    killed.snakemake(*LINE)
    assert without_timings(killed) == without_timings(undisturbed)
    assert [r["status"] for r in killed.rows()].count("ok") == 2
    assert "Nothing to be done" in killed.snakemake(*LINE).stdout
    assert not list(killed.path.glob("results/**/.*.partial"))


def assert_nothing_runs_in(folder) -> None:
    """No process is left whose working directory is the killed checkout."""
    deadline = time.monotonic() + 15
    while True:
        left = []
        for process in psutil.process_iter(["cwd", "cmdline", "status"]):
            if process.info["cwd"] == str(folder) and process.info["status"] != "zombie":
                left.append(process.info["cmdline"])
        if not left:
            return
        if time.monotonic() > deadline:
            pytest.fail(f"still running 15 s after the kill: {left}")
        time.sleep(0.1)
