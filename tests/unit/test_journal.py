"""accounting: where the wall time of the last run went."""

import json
import time

import pytest

from scripts.supervise import journal


@pytest.fixture
def account(tmp_path):
    """Account for journal entries: a number starts a run then, a tuple is (stage, start, seconds)."""

    def of(entries: list, now: float):
        path = tmp_path / "journal.jsonl"
        lines = [
            e if isinstance(e, str)
            else json.dumps({"run": 1, "start": e} if isinstance(e, int) else dict(zip(("stage", "start", "child_seconds"), e, strict=True)))
            for e in entries
        ]  # fmt: skip
        path.write_text("".join(line + "\n" for line in lines))
        return journal.of_last_run(path, now)

    return of


def seconds(found: journal.Account) -> dict[str, float]:
    return {stage: spent.startup + spent.work for stage, spent in found.stages.items()}


def test_overlapping_stages_count_once_as_busy_and_in_full_by_stage(account):
    found = account([100, ("compile", 110, 20), ("compile", 120, 20), ("measure", 150, 10)], 200)
    assert (found.wall, found.environments, found.busy) == (100, 0, 40)
    assert seconds(found) == {"compile": 40, "measure": 10}
    assert found.overhead == pytest.approx(0.6)


def test_environments_are_taken_out_of_the_wall_time(account):
    found = account([0, ("env", 0, 30), ("env", 10, 40), ("export", 40, 20), ("export", 60, 15)], 100)  # fmt: skip
    assert (found.environments, found.busy) == (50, 25)
    assert found.overhead == pytest.approx(0.5)


def test_only_the_last_run_counts(account):
    found = account([0, ("export", 1, 50), 100, ("compile", 100, 10)], 110)
    assert (found.wall, seconds(found), found.overhead) == (10, {"compile": 10}, 0.0)


def test_a_half_written_line_is_passed_over(account):
    found = account([0, '{"stage": "comp', ("compile", 1, 2)], 4)
    assert seconds(found) == {"compile": 2}


@pytest.mark.parametrize(
    "line",
    [
        '{"run": 7, "ctart": 3}',
        '{"stagd": "compile", "start": 3, "child_seconds": 1}',
        '{"stage": "compile", "start": 3, "child_secondr": 1}',
        '{"stage": "compile", "start": "3", "child_seconds": 1}',
        "[3]",
    ],
)
def test_a_damaged_line_is_passed_over(account, line):
    assert seconds(account([0, ("compile", 1, 2), line], 4)) == {"compile": 2}


def test_a_run_of_nothing_but_environments_has_no_overhead(account):
    assert account([0, ("env", 0, 10)], 10).overhead == 0.0


@pytest.mark.parametrize("now", [-4000, 20, 9000])
def test_no_time_is_negative_where_the_clock_was_set_during_a_run(account, now):
    found = account([0, ("env", -3600, 5), ("compile", 7200, 9), ("export", 3, 10)], now)
    assert found.wall == max(0, now)
    assert 0 <= found.environments + found.busy <= found.wall
    assert min(found.environments, found.busy, found.overhead) >= 0


def test_a_journal_in_which_no_run_began_has_no_account(account):
    assert account([("compile", 1, 2)], 4) is None


def test_a_run_begins_in_the_journal(tmp_path):
    path = tmp_path / "journal.jsonl"
    journal.begin(path)
    assert journal.of_last_run(path, time.time()).wall < 10
