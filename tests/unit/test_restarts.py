"""restarts: a run starts over a few times, then stops and lists the reasons."""

import sys

import pytest

from scripts.snakemake import restarts


@pytest.fixture
def started(monkeypatch):
    """Command lines that were executed in place of this process."""
    monkeypatch.delenv("VMFBENCH_STARTED_OVER", raising=False)
    commands = []
    monkeypatch.setattr(restarts.os, "execv", lambda _, command: commands.append(command))
    monkeypatch.setattr(sys, "argv", ["snakemake", "--jobs", "3"])
    return commands


def test_the_command_line_is_given_again(started):
    restarts.start_over("why", ["x"])
    assert started == [[sys.executable, "-m", "snakemake", "--jobs", "3"]]


def test_at_the_limit_every_reason_is_said(started):
    for number in range(restarts.LIMIT):
        restarts.start_over(f"reason {number}", ["x"])
    with pytest.raises(restarts.Unsettled) as error:
        restarts.start_over("the last one", ["y"] * 10_000)
    assert len(started) == restarts.LIMIT
    reasons = [f"reason {number} (1): x" for number in range(restarts.LIMIT)]
    reasons.append("the last one (10000): y, y, y, y, y, …")
    for number, reason in enumerate(reasons, 1):
        assert f"{number}. {reason}\n" in str(error.value)


def test_a_run_that_goes_on_counts_anew(started):
    for _ in range(3 * restarts.LIMIT):
        restarts.start_over("why", ["x"])
        restarts.settled()
    assert len(started) == 3 * restarts.LIMIT
