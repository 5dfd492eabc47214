"""The workflow through workflow/profiles/cluster-generic, with a queue of three small scripts."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
import yaml

from tests.cluster.stubs import Stubs, planned

QUEUE = Path(__file__).parent / "queue"
LINE = (
    *("--profile", "workflow/profiles/cluster-generic", "results/latency.csv"),
    *("--cluster-generic-submit-cmd", str(QUEUE / "submit")),
    *("--cluster-generic-status-cmd", str(QUEUE / "status")),
    *("--cluster-generic-cancel-cmd", str(QUEUE / "cancel")),
    *("--max-status-checks-per-second", "10", "--seconds-between-status-checks", "1"),
)


@pytest.fixture
def stubs(make_stubs, tmp_path_factory):
    """A function that makes a checkout of stubs which submits to a queue of its own."""
    return lambda models: make_stubs(models, {"QUEUE": str(tmp_path_factory.mktemp("queue"))})


def submitted(checkout, kind: str = "*") -> list[Path]:
    return sorted(Path(checkout.variables["QUEUE"]).glob(f"*/{kind}"))


def under_way(checkout) -> set[Path]:
    """Folders of the jobs that have not ended."""
    return {p.parent for p in submitted(checkout, "pid") if not (p.parent / "exit").exists()}


def compiling(stubs) -> Stubs:
    """Two models, and a run in which one of the second's compilations does not end by itself."""
    checkout = stubs(2)
    checkout.behave("*scripts.stages.compile_iree*m00001*t2*) sleep 600")
    checkout.start(*LINE)
    checkout.wait_for(
        lambda: list(checkout.path.glob("results/compile/m00001/*/t2/.scratch")), "the stage"
    )
    # A job may begin before Snakemake has read what the submission says.
    notes = checkout.path / "results/logs/submitted.txt"
    checkout.wait_for(
        lambda: len(set(notes.read_text().split())) == len(submitted(checkout, "pid")), "its note"
    )
    return checkout


def generations_of(checkout: Stubs) -> list[int]:
    """Return the number of generations of each row."""
    lines = (checkout.path / "results/results.jsonl").read_text().splitlines()
    return [json.loads(line)["latency"]["generations"] for line in lines]


def test_a_job_that_dies_is_submitted_again_and_every_row_is_there(stubs):
    checkout = compiling(stubs)
    (victim,) = [job for job in under_way(checkout) if "m00001" in (job / "script").read_text()]
    checkout.behave()
    os.killpg(int((victim / "pid").read_text()), signal.SIGKILL)
    checkout.end()
    assert [row["status"] for row in checkout.rows()] == ["ok"] * 8
    # The references, the builds of each model and one of them again, verifications, timing.
    assert len(submitted(checkout, "pid")) == 1 + 2 + 1 + 1 + 1


def test_a_killed_snakemake_started_again_cancels_what_it_left_and_ends_with_every_row(stubs):
    checkout = compiling(stubs)
    checkout.kill()
    left = under_way(checkout)
    checkout.behave()
    checkout.start(*LINE)
    checkout.end()
    assert [row["status"] for row in checkout.rows()] == ["ok"] * 8
    assert generations_of(checkout) == [1] * 8
    cancelled = {path.parent for path in submitted(checkout, "cancelled")}
    assert cancelled
    assert cancelled <= left  # the other model's compilations may have ended meanwhile
    said = f"cancelling {len(cancelled)} job(s) that an earlier run has left"
    assert said in checkout.output()


def end_unwatched(checkout, target: str, *arguments: str) -> dict[str, float]:
    """Kill a run while a compilation for `target` is under way, and let that end; what is made."""
    checkout.start(*LINE, *arguments)
    checkout.wait_for(
        lambda: list(checkout.path.glob(f"results/compile/*/*/{target}/.scratch")), "the stage"
    )
    checkout.kill()
    (build,) = under_way(checkout)
    while not (build / "exit").exists():
        time.sleep(0.1)
    return checkout.made()


def remade(checkout, done: dict[str, float]) -> set[str]:
    return {path for path in done if checkout.made()[path] != done[path]}


def test_what_ends_while_no_snakemake_watches_is_kept_and_can_be_tried_again(stubs):
    checkout = stubs(1)
    fails = "*scripts.stages.compile_iree*t2*) echo error: no such dialect; exit 1"
    checkout.behave("*scripts.stages.compile_iree*t1*) sleep 5", fails)
    done = end_unwatched(checkout, "t1")
    # Another option for one of the compilations that ended meanwhile.
    config = yaml.safe_load((checkout.path / "config.yaml").read_text())
    config["targets"]["t3"]["opt_level"] = "O3"
    checkout.configure(targets=config["targets"])
    checkout.start(*LINE)
    checkout.end()
    status = {row["target"]: row["status"] for row in checkout.rows()}
    assert status == {"t0": "ok", "t1": "ok", "t2": "error", "t3": "ok"}
    assert remade(checkout, done) == {"results/compile/m00000/stub/t3/status.json"}
    # Every job's params are on record: a failure can be forced.
    retried = planned(checkout.snakemake("-n", *LINE, "--config", "retry=error").stdout)
    assert retried == {"compile_iree": 1, "verify_iree": 1, "time_group": 1, "aggregate_results": 1}
    # A cell that was on record, run again, ends unwatched: it is not run once more.
    checkout.behave("*scripts.stages.compile_iree*t2*) sleep 5")
    done = end_unwatched(checkout, "t2", "--config", "retry=error")
    checkout.start(*LINE)
    checkout.end()
    assert [row["status"] for row in checkout.rows()] == ["ok"] * 4
    assert remade(checkout, done) == {
        "results/verify/m00000/stub/t2/status.json",
        "results/time/m00000/cpu/eval/status.json",
    }
