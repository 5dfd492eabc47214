"""fingerprint: which recorded outcomes are repeated."""

import os
import re
import time

import pytest

from scripts.config import stages
from scripts.core import atomic
from scripts.run import fingerprint, signs
from scripts.supervise import outcome
from scripts.supervise.outcome import FAILED, Outcome, Usage


@pytest.mark.parametrize(
    ("stage", "looks"),
    [
        ("verify", True),
        ("baseline", True),
        ("dumps", True),
        ("compile", False),
        ("reference", False),
        ("gradients", False),
        ("env", False),
    ],
)
def test_a_stage_that_wants_a_device_is_due_again_when_one_appears(monkeypatch, stage, looks):
    before = signs.fingerprint(3, stages.wants_device(stage))
    monkeypatch.setattr(signs, "_machine_signs", lambda: "another device")
    assert (signs.fingerprint(3, stages.wants_device(stage)) != before) == looks
    assert re.split("[-@]", before)[0] == "3"


@pytest.fixture
def recorded(tmp_path):
    """Record an outcome and return the path of its status file."""

    def record(status: str, code: str, due: str = "", limit: float | None = None):
        path = tmp_path / "status.json"
        ended = Outcome(status, "compile", "c", fingerprint=code, due=due or code, limit=limit)
        outcome.write(path, ended, Usage(0, 0))
        return path

    return record


NOT_OK = (*FAILED, "unavailable", "skipped")


@pytest.mark.parametrize(
    ("status", "code", "recorded_due", "retry", "due"),
    [
        ("ok", "old", "old", (), "old"),
        ("ok", "new", "new", (), "new"),
        ("ok", "old", "old", ("timeout",), "old"),
        ("ok", "new", "new", ("all",), "new+1"),
        ("ok", "old", "old", ("all",), "new+1"),
        ("ok", "old", "old+1", (), "old+1"),
        *[(status, "old", "old", (), "new") for status in NOT_OK],
        *[(status, "new", "new", (), "new") for status in NOT_OK],
        # An input had changed: Snakemake ran the cell with the same param, and the code of now.
        *[(status, "new", "old", (), "old") for status in NOT_OK],
        ("error", "new", "new", ("timeout",), "new"),
        ("timeout", "new", "new", ("timeout",), "new+1"),
        ("timeout", "new", "old", ("timeout",), "new+1"),
        ("timeout", "new", "new", ("all",), "new+1"),
        ("timeout", "new", "new+1", ("timeout",), "new+2"),
        ("timeout", "new", "new+9", ("timeout",), "new+10"),
        ("timeout", "new", "new+1", (), "new+1"),
        ("timeout", "old", "old+1", (), "new"),
    ],
)
def test_done_and_tried_cells_keep_what_they_were_due_under_and_others_get_the_code_of_now(
    recorded, status, code, recorded_due, retry, due
):
    assert fingerprint.due(recorded(status, code, recorded_due), "new", retry) == due


@pytest.mark.parametrize("status", [*NOT_OK, "ok"])
@pytest.mark.parametrize(
    ("current", "again"),
    [
        ("code-cpu@here", False),
        ("code-gpu@here", True),
        ("code-gpu@head", False),
        ("code-cpu@head", False),
        ("other-cpu@here", True),
        ("other-gpu@head", True),
    ],
)
def test_a_cell_that_failed_is_due_again_when_the_devices_of_its_own_machine_change(
    recorded, status, current, again
):
    path = recorded(status, "code-cpu@here", "code")
    due = fingerprint.due(path, current)
    assert (due != "code") == (again and status != "ok")
    assert fingerprint.due(recorded(status, current, due), current) == due


def test_what_is_due_does_not_tell_which_machine_asks(tmp_path):
    asked = {fingerprint.due(tmp_path / "none.json", f"code-{x}") for x in ("a@head", "b@node")}
    assert asked == {"code"}


def test_a_cell_with_nothing_on_record_is_due_under_the_code(tmp_path):
    path = tmp_path / "status.json"
    assert fingerprint.due(path, "new") == "new"
    assert fingerprint.due(path, "new", {"all"}, {"timeout": 1}) == "new"


@pytest.mark.parametrize("content", ["", "{}", '{"status": "o'])
def test_a_cell_with_nothing_readable_on_record_is_due_whatever_asked_for_it_before(
    recorded, content
):
    path = recorded("ok", "new", "new+3")
    path.write_text(content)
    due = fingerprint.due(path, "new-cpu@here")
    assert due.startswith("new+")
    assert int(due.removeprefix("new+")) > 1e18
    assert fingerprint.due(path, "new-gpu@there") == due, "all ask for it by the same param"
    again = recorded("ok", "new", due)
    assert fingerprint.due(again, "new") == due
    again.write_text(content)
    assert fingerprint.due(again, "new") != due, "damaged once more"


@pytest.mark.parametrize(("ahead_s", "due"), [(-3600, "new+3"), (10, "new+3"), (3600, "new+4")])
def test_a_stage_of_the_future_is_due(recorded, ahead_s, due):
    path = recorded("ok", "new", "new+3")
    at = time.time() + ahead_s
    os.utime(path, (at, at))
    assert fingerprint.due(path, "new") == due


PASSING = [
    ("error", "exhausted"),
    *[("crashed", number) for number in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")],
    ("error", "disk-full"),
    ("error", "damaged-environment"),
    ("damaged", "damaged-file"),
]


@pytest.mark.parametrize(("status", "reason"), PASSING)
@pytest.mark.parametrize("code", ["old", "new"])
def test_a_failure_that_says_nothing_about_the_cell_is_due_in_every_run(
    tmp_path, status, reason, code
):
    path = tmp_path / "status.json"
    dues = ["new"]
    for _ in range(3):
        ended = Outcome(status, "compile", "c", reason, fingerprint=code, due=dues[-1])
        outcome.write(path, ended, Usage(0, 0))
        dues.append(fingerprint.due(path, "new"))
    assert dues == ["new", "new+1", "new+2", "new+3"]


@pytest.mark.parametrize(
    ("status", "reason"), [("crashed", "SIGSEGV"), ("oom", "kernel-oom-kill"), *PASSING]
)
def test_what_was_skipped_for_a_failure_follows_it_and_a_crash_of_its_own_stays(
    tmp_path, status, reason
):
    path = tmp_path / "status.json"
    if (status, reason) in PASSING:
        status = "skipped"
    outcome.write(
        path, Outcome(status, "c", "c", reason, fingerprint="new", due="new"), Usage(0, 0)
    )
    assert fingerprint.due(path, "new") == "new"


@pytest.mark.parametrize(
    ("usage", "artifact", "whole"),
    [
        ("kept", "made", True),
        ("kept", "mad", False),
        ("kept", None, False),
        ('{"seconds": 1', "made", False),
        (None, "made", False),
    ],
)
def test_a_cell_whose_files_are_cut_short_is_due(tmp_path, usage, artifact, whole):
    path, made = tmp_path / "status.json", tmp_path / "weights.irpa"
    made.write_text("made")
    ended = Outcome("ok", "reference", "c", fingerprint="old", due="old")
    outcome.write(path, ended, Usage(0, 0, {made.name: atomic.digest_of(made)}))
    made.unlink() if artifact is None else made.write_text(artifact)
    if usage is None:
        outcome.usage_path(path).unlink()
    elif usage != "kept":
        outcome.usage_path(path).write_text(usage)
    assert fingerprint.due(path, "new") == ("old" if whole else "new+1")


@pytest.mark.parametrize(
    ("status", "code", "due"),
    [
        ("ok", "old", "new+1"),
        ("ok", "new", "new"),
        ("error", "new", "new"),
        ("error", "old", "new"),
    ],
)
def test_stale_is_what_ended_well_under_older_code(recorded, status, code, due):
    path = recorded(status, code)
    assert fingerprint.due(path, "new-cpu@here", {fingerprint.STALE}) == due
    assert fingerprint.is_stale(outcome.read(path), "new-cpu@here") == (
        (status, code) == ("ok", "old")
    )


@pytest.mark.parametrize("due", ["new", "old", "old+3", "new+3"])
@pytest.mark.parametrize("before", outcome.STATUSES)
@pytest.mark.parametrize("after", outcome.STATUSES)
def test_a_forced_retry_runs_once_whatever_it_ends_in(recorded, before, due, after):
    forced = fingerprint.due(recorded(before, due.split("+")[0], due), "new", {"all"})
    assert forced != due
    assert fingerprint.due(recorded(after, "new", forced), "new") == forced


@pytest.mark.parametrize(("begun", "due"), [("new+1", "new+1"), ("new", "new"), ("old+1", "new")])
def test_a_forced_retry_without_an_outcome_is_asked_for_by_the_same_param_again(
    tmp_path, recorded, begun, due
):
    path = tmp_path / "begun/status.json"
    outcome.begin(path, begun)
    assert fingerprint.due(path, "new-cpu@node") == due
    ended = Outcome("ok", "compile", "m/f/t", fingerprint="new", due=due)
    outcome.write(path, ended, Usage(0.0, 0.0))
    assert outcome.begun(path) == ""
    assert fingerprint.due(path, "new-cpu@head") == due


LIMITS = {"timeout": 60, "oom": 1000}


@pytest.mark.parametrize(
    ("status", "limit", "forced"),
    [
        ("timeout", 60, False),
        ("timeout", 30, True),
        ("oom", 1000, False),
        ("oom", 60, True),
        ("oom", None, True),
        *[(status, None, False) for status in outcome.STATUSES if status not in LIMITS],
    ],
)
def test_a_cell_that_met_a_limit_is_due_once_when_that_is_another_one(
    recorded, status, limit, forced
):
    due = fingerprint.due(recorded(status, "new", limit=limit), "new", limits=LIMITS)
    assert due == ("new+1" if forced else "new")
    after = recorded(status, "new", due, LIMITS.get(status))
    assert fingerprint.due(after, "new", limits=LIMITS) == due


@pytest.mark.parametrize(
    ("part", "due"),
    [
        ({"status": "ok", "fingerprint": "old"}, "old"),
        ({"status": "error", "fingerprint": "new"}, "old"),
        ({"status": "error", "fingerprint": "old"}, "new"),
        ({"status": "skipped", "fingerprint": "old"}, "old"),
        ({"status": "crashed", "fingerprint": "new", "reason": "SIGKILL"}, "new+1"),
        ({"status": "timeout", "fingerprint": "new", "limit": 60}, "old"),
        ({"status": "timeout", "fingerprint": "new", "limit": 30}, "new+1"),
        ({"status": "unsupported", "fingerprint": "new"}, "new+1"),  # the status of `retry`
    ],
)
def test_a_batch_is_due_if_one_of_its_problems_is(recorded, part, due):
    parts = [Outcome(stage="s", cell="c", **one) for one in ({"status": "ok"}, part)]
    path = recorded("ok", "old", "old")
    found = fingerprint.due(path, "new", {"unsupported"}, LIMITS, parts)
    assert found == due
