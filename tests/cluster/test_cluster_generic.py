"""The workflow through workflow/profiles/cluster-generic, with a queue of three small scripts."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
import yaml

from tests.cluster.stubs import planned

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


def test_a_job_that_dies_is_submitted_again_and_every_row_is_there(stubs):
    checkout = stubs(2)
    checkout.behave("*scripts.stages.compile_iree*m00001*t2*) sleep 600")
    checkout.start(*LINE)
    checkout.wait_for(
        lambda: list(checkout.path.glob("results/compile/m00001/*/t2/.scratch")), "the stage"
    )
    (victim,) = [job for job in under_way(checkout) if "m00001" in (job / "script").read_text()]
    checkout.behave()
    os.killpg(int((victim / "pid").read_text()), signal.SIGKILL)
    checkout.end()
    assert [row["status"] for row in checkout.rows()] == ["ok"] * 8
    # The references, the builds of each model and one of them again, verifications, timing.
    assert len(submitted(checkout, "pid")) == 1 + 2 + 1 + 1 + 1


def test_what_ends_while_no_snakemake_watches_is_made_again_as_it_is_asked_for_now(stubs):
    checkout = stubs(1)
    fails = "*scripts.stages.compile_iree*t2*) echo error: no such dialect; exit 1"
    checkout.behave("*scripts.stages.compile_iree*t1*) sleep 5", fails)
    checkout.start(*LINE)
    checkout.wait_for(
        lambda: list(checkout.path.glob("results/compile/*/*/t1/.scratch")), "the stage"
    )
    checkout.kill()
    (build,) = under_way(checkout)
    while not (build / "exit").exists():
        time.sleep(0.1)
    done = checkout.made()
    # Another option for one of the compilations that ended meanwhile.
    config = yaml.safe_load((checkout.path / "config.yaml").read_text())
    config["targets"]["t3"]["opt_level"] = "O3"
    checkout.configure(targets=config["targets"])
    checkout.start(*LINE)
    checkout.end()
    status = {row["target"]: row["status"] for row in checkout.rows()}
    assert status == {"t0": "ok", "t1": "ok", "t2": "error", "t3": "ok"}
    built = {f"results/compile/m00000/stub/t{n}/status.json" for n in range(4)}
    remade = {path for path in done if checkout.made()[path] != done[path]}
    assert remade == {*built, "results/export/m00000/stub/status.json"}
    # Every job's params are on record: a failure can be forced.
    retried = planned(checkout.snakemake("-n", *LINE, "--config", "retry=error").stdout)
    assert retried == {"compile_iree": 1, "verify_iree": 1, "time_group": 1, "aggregate_results": 1}
