"""estimate: the remaining time of a run."""

import pytest

from scripts.run import estimate
from scripts.run.estimate import Shares, left_s


@pytest.fixture(autouse=True)
def typical(monkeypatch):
    monkeypatch.setattr(estimate, "TYPICAL_S", {"compile": 10, "measure": 4, "slow": 50})


def test_jobs_that_run_beside_each_other_share_the_time_that_passes():
    shares = Shares()
    shares.begin(1, "compile", 0)
    shares.begin(2, "export", 10)
    shares.end(1, 20)
    shares.end(2, 26)
    assert dict(shares.seconds) == {"compile": 15, "export": 11}
    assert sum(shares.seconds.values()) == 26


def test_time_in_which_nothing_runs_is_nobodys():
    shares = Shares()
    shares.begin(1, "compile", 0)
    shares.end(1, 5)
    shares.begin(2, "compile", 100)
    shares.end(2, 105)
    assert (shares.seconds["compile"], shares.jobs["compile"]) == (10, 2)


def test_a_job_that_will_be_run_again_does_not_count_and_one_that_is_not_known_is_passed_over():
    shares = Shares()
    shares.begin(1, "compile", 0)
    shares.end(1, 5, counts=False)
    shares.end(7, 6)
    assert not shares.jobs


def test_the_time_left_is_that_of_the_jobs_to_come_and_the_rest_of_those_that_run():
    shares = Shares()
    shares.begin(1, "compile", 0)
    found = left_s({"measure": 5, "compile": 1}, shares, 6)
    assert found == pytest.approx(5 * 4 + 10 + (10 - 6))


def test_a_job_that_takes_longer_than_expected_has_nothing_left():
    shares = Shares()
    shares.begin(1, "compile", 0)
    assert left_s({}, shares, 60) == 0


def test_what_this_run_sees_takes_the_place_of_what_was_assumed():
    shares = Shares()
    for number in range(100):
        shares.begin(number, "slow", number)
        shares.end(number, number + 1)
    assert left_s({"slow": 10}, shares, 100) == pytest.approx(10, abs=1)
    assert left_s({"slow": 10}, Shares(), 0) == 500


def test_a_machine_that_is_slower_than_assumed_is_so_for_stages_to_come():
    shares = Shares()
    for number in range(10):
        shares.begin(number, "compile", number * 30)
        shares.end(number, number * 30 + 30)
    left = left_s({"measure": 10}, shares, 300)
    assert left == pytest.approx(10 * 4 * (30 + 300) / (30 + 100))


def test_a_stage_that_nothing_is_known_of_takes_what_is_typical():
    assert left_s({"compile": 1, "no-stage": 1}, Shares(), 0) == 10 + estimate.OTHER_S
