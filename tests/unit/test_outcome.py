"""outcome: status.json is identical for identical outcomes; usage.json has what varies."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome, Usage

text = st.text(max_size=20)
limits = st.none() | st.floats(0, 1e6)
outcomes = st.builds(Outcome, st.sampled_from(outcome.STATUSES), *[text] * 9, limits)
usages = st.builds(Usage, st.floats(0, 1e6), st.floats(0, 1e6))


@given(outcomes, usages)
def test_an_outcome_and_its_usage_read_back(tmp_path, ended, usage):
    outcome.write(tmp_path / "status.json", ended, usage)
    assert outcome.read(tmp_path / "status.json") == ended
    assert outcome.read_usage(tmp_path / "status.json") == usage


@given(outcomes)
def test_the_same_outcome_is_the_same_bytes_whatever_it_took(tmp_path, ended):
    first, second = tmp_path / "a" / "status.json", tmp_path / "b" / "status.json"
    outcome.write(first, ended, Usage(1.0, 10.0))
    outcome.write(second, dataclasses.replace(ended), Usage(2.0, 20.0))
    assert first.read_bytes() == second.read_bytes()


def test_a_status_file_is_written_last(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(outcome.atomic, "write_json", lambda path, _: written.append(path.name))
    outcome.write(tmp_path / "status.json", Outcome("ok", "env", "iree"), Usage(0, 0))
    assert written == ["usage.json", "status.json"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "null",
        '{"status": "ok"}',
        '{"status": "okay", "stage": "s", "cell": "c"}',
        '{"status": "ok", "stage": "s", "cell": "c", "seconds": 1}',
    ],
)
def test_a_file_that_is_no_status_names_itself(tmp_path, content):
    path = tmp_path / "status.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"status\.json: not .*the next run makes it again"):
        outcome.read(path)


def test_a_stage_that_never_ran_has_no_usage(tmp_path):
    assert outcome.read_usage(tmp_path / "status.json") is None
