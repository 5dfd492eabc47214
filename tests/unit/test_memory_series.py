"""The memory of a stage over time: thinned, with marks, beside its usage."""

from __future__ import annotations

import json

from scripts.supervise import outcome
from scripts.supervise.outcome import MOST_SAMPLES, MemorySeries


def test_few_samples_are_kept_as_they_are():
    series = MemorySeries()
    for place, mb in enumerate((10.2, 20.6, 15.0)):
        series.add(0.1 * place, mb)
    series.mark(0.15, "load")
    assert series == MemorySeries([0.0, 0.1, 0.2], [10, 21, 15], [(0.15, "load")])


def test_many_samples_are_thinned_and_the_peak_stays_where_it_was():
    series = MemorySeries()
    for place in range(10_000):
        series.add(float(place), 5000.0 if place == 7777 else 100.0)
    assert MOST_SAMPLES <= len(series.mb) < 2 * MOST_SAMPLES
    assert series.seconds[series.mb.index(5000)] == 7777.0
    assert series.seconds == sorted(series.seconds)


def test_a_series_is_read_as_written_and_a_damaged_one_is_none(tmp_path):
    status = tmp_path / "status.json"
    series = MemorySeries([0.1, 0.2], [5, 7], [(0.1, "timed calls")])
    outcome.write_memory(status, series)
    assert outcome.read_memory(status) == series
    (tmp_path / outcome.MEMORY).write_text(json.dumps({"seconds": [1], "mb": [], "marks": []}))
    assert outcome.read_memory(status) is None
    (tmp_path / outcome.MEMORY).write_text("{")
    assert outcome.read_memory(status) is None


def test_a_stage_that_was_not_run_leaves_no_older_series(tmp_path):
    status = tmp_path / "status.json"
    outcome.write_memory(status, MemorySeries([0.1], [5]))
    outcome.write_memory(status, None)
    assert outcome.read_memory(status) is None
