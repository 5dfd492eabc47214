"""atomic: complete files or none, and JSON that any reader accepts."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.core import atomic

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)  # fmt: skip


@given(values)
def test_json_reads_back_as_it_was_written(tmp_path, value):
    atomic.write_json(tmp_path / "made" / "a.json", value)
    assert atomic.read_json(tmp_path / "made" / "a.json") == value


@pytest.mark.parametrize("interrupted", ["fsync", "replace"])
def test_a_write_that_is_cut_short_leaves_the_old_file_alone(tmp_path, monkeypatch, interrupted):
    path = tmp_path / "a.txt"
    atomic.write_text(path, "old")

    def stop(*_):
        assert path.read_text() == "old"
        raise KeyboardInterrupt

    monkeypatch.setattr(os, interrupted, stop)
    with pytest.raises(KeyboardInterrupt):
        atomic.write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_are_not_json_are_refused_before_anything_is_written(tmp_path, number):
    with pytest.raises(ValueError, match="not JSON compliant"):
        atomic.write_json(tmp_path / "a.json", {"x": number})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("broken", [b"", b'{"status": "o', b"\xff\xfe\x00"])
def test_a_broken_json_file_names_itself(tmp_path, broken):
    path = tmp_path / "broken.json"
    path.write_bytes(broken)
    with pytest.raises(ValueError, match=r"broken\.json: .*the next run makes it again"):
        atomic.read_json(path)
