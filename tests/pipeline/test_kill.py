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

from tests.checkouts import EAGER, ON_CPU, environment, keep_models, without_timings

KILLS = 4
SEED = 20261121
LINE = ("--cores", "8", "results/latency.csv", "--config", "frontends=torchmlir-stablehlo")


@pytest.fixture(scope="module")
def make_run(make_checkout):
    def make(name):
        checkout = make_checkout(name, models={}, targets=ON_CPU, baselines=EAGER)
        keep_models(checkout, "conv")
        return checkout

    return make


def test_a_run_killed_again_and_again_ends_like_one_left_alone(make_run):
    quiet = make_run("undisturbed")
    start = time.monotonic()
    quiet.snakemake(*LINE)
    length = time.monotonic() - start

    killed = make_run("killed")
    moments = random.Random(SEED)
    for attempt in range(KILLS):
        run = subprocess.Popen(
            [sys.executable, "-m", "snakemake", *LINE],
            cwd=killed.path,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )
        # Between the first import and a little past what is left of the run.
        time.sleep(moments.uniform(0.5, max(2.0, length * (1 - attempt / KILLS))))
        # Every second time Snakemake alone, else its whole process group.
        kill = os.kill if attempt % 2 else os.killpg
        kill(run.pid, signal.SIGKILL)
        run.wait()
        assert_nothing_runs_in(killed.path)

    killed.snakemake(*LINE)
    assert without_timings(killed) == without_timings(quiet)
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


def test_a_second_run_beside_the_first_is_refused(make_run):
    checkout = make_run("locked")
    first = subprocess.Popen(
        [sys.executable, "-m", "snakemake", *LINE],
        cwd=checkout.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    lock = checkout.path / "results/logs/run.lock"
    while first.poll() is None and not (lock.exists() and lock.read_text()):
        time.sleep(0.1)
    second = checkout.snakemake(*LINE, check=False)
    first.terminate()
    first.wait()
    assert second.returncode != 0
    assert f"another run (process {first.pid})" in second.stdout
