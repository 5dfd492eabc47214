"""The workflow through workflow/profiles/cluster-generic, with a queue of three small scripts."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

QUEUE = Path(__file__).parent / "queue"
LINE = (
    *("--profile", "workflow/profiles/cluster-generic", "results/latency.csv"),
    *("--cluster-generic-submit-cmd", str(QUEUE / "submit")),
    *("--cluster-generic-status-cmd", str(QUEUE / "status")),
    *("--cluster-generic-cancel-cmd", str(QUEUE / "cancel")),
    *("--max-status-checks-per-second", "10"),
)


@pytest.fixture
def stubs(make_stubs, tmp_path_factory):
    """A function that makes a checkout of stubs which submits to a queue of its own."""
    return lambda models: make_stubs(models, {"QUEUE": str(tmp_path_factory.mktemp("queue"))})


def submitted(checkout, kind: str = "*") -> list[Path]:
    return sorted(Path(checkout.variables["QUEUE"]).glob(f"*/{kind}"))


def test_a_job_that_dies_is_submitted_again_and_every_row_is_there(stubs):
    checkout = stubs(2)
    checkout.behave("*scripts.compile_iree*m00001*t2*) sleep 60")
    checkout.start(*LINE)
    checkout.wait_for(
        lambda: list(checkout.path.glob("results/compile/m00001/*/t2/.scratch")), "the stage"
    )
    (victim,) = [p for p in submitted(checkout, "pid") if "m00001" in (p.parent / "script").read_text() and not (p.parent / "exit").exists()]  # fmt: skip
    checkout.behave()
    os.killpg(int(victim.read_text()), signal.SIGKILL)
    checkout.end()
    assert [row["status"] for row in checkout.rows()] == ["ok"] * 8
    # The references, the builds of each model and one of them again, the measurements.
    assert len(submitted(checkout, "pid")) == 1 + 2 + 1 + 1


def test_a_killed_snakemake_started_again_cancels_what_it_left_and_ends_with_every_row(stubs):
    checkout = stubs(2)
    checkout.behave("*scripts.compile_iree*m00001*t2*) sleep 60")
    checkout.start(*LINE)
    checkout.wait_for(
        lambda: list(checkout.path.glob("results/compile/m00001/*/t2/.scratch")), "the stage"
    )
    checkout.kill()
    checkout.behave()
    checkout.start(*LINE)
    checkout.end()
    assert [row["status"] for row in checkout.rows()] == ["ok"] * 8
    assert len(submitted(checkout, "cancelled")) == 1
    assert "cancelling 1 job(s) that an earlier run has left" in checkout.output()
