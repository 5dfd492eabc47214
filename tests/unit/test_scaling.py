"""Parallel efficiency by number of threads."""

from __future__ import annotations

import math

import pytest

from scripts.config.cell import Cell, Kind
from scripts.measure.timing import ratios
from scripts.results.results_table import ModelRows, Table
from scripts.results.row import Column, Row, Timing
from scripts.results.speedups import Conditions
from scripts.supervise.outcome import Outcome
from scripts.tools.report.web import row_views
from scripts.tools.report.web.row_views import ScalingPoint
from tests import report_records
from tests.rows import latency, steady


def added(
    to: ModelRows,
    target: str,
    ms: float | None,
    number: int,
    interval: bool = True,
    cpu: str = "A CPU",
) -> None:
    """Add a row that takes so long with a number of threads; None: it failed."""
    column = Column("mlir", target)
    cell = Cell.of_kind(Kind.IREE, model=to.model, frontend=column.name, target=target)
    if ms is None:
        to.entries[column] = Row(
            cell, column, Outcome("crashed", "time", str(cell), reason="segfault")
        )
        return
    values = steady(ms) if interval else [ms, ms]
    timing = Timing(latency(values, group=str(number)))
    ended = Outcome("ok", "time", str(cell))
    at = Conditions(to.model, "eval", "f32", "none", 1, "cpu", cpu, number, None)
    to.entries[column] = Row(cell, column, ended, timing, conditions=at)


def line(*measured: tuple[int, float | None], interval: bool = True) -> list[ScalingPoint]:
    """The line of a path that was measured so: (threads, ms)."""
    row = ModelRows("m", "eval", "")
    for number, ms in measured:
        added(row, f"llvm-cpu+{number}-threads@old", ms, number, interval)
    [(path, points)] = row_views.scaling_lines(row).items()
    assert path == "mlir on llvm-cpu@old"
    return points


def efficiencies(points: list[ScalingPoint]) -> dict[int, float | None]:
    return {point.threads: point.efficiency for point in points}


def paths(records: list[dict]) -> list[str]:
    return [
        path for rows in Table.of_records(records).rows for path in row_views.scaling_lines(rows)
    ]


def test_the_efficiency_is_that_of_the_formula():
    assert efficiencies(line((4, 4.0), (1, 12.0), (2, 6.0))) == {
        1: 1.0,
        2: pytest.approx(12.0 * 1 / (6.0 * 2)),
        4: pytest.approx(12.0 * 1 / (4.0 * 4)),
    }


def test_the_fewest_threads_with_a_latency_are_the_base():
    assert efficiencies(line((1, None), (2, 6.0), (4, 4.0))) == {
        1: None,
        2: 1.0,
        4: pytest.approx(6.0 * 2 / (4.0 * 4)),
    }


def test_the_interval_is_that_of_two_independent_latencies():
    point = line((1, 10.0), (2, 8.0))[1]
    known = [ratios.of_logs(list(map(math.log, steady(ms)))) for ms in (10.0, 8.0)]
    of = ratios.combined([(1, known[0]), (-1, known[1])]).interval()
    assert point.interval
    assert point.interval.low == pytest.approx(of.low / 2)
    assert point.interval.high == pytest.approx(of.high / 2)
    assert line((1, 10.0), (2, 8.0))[0].interval is None
    without = line((1, 10.0), (2, 8.0), interval=False)[1]
    assert (without.efficiency, without.interval) == (None, None), "a ratio without an interval"


def test_rows_of_one_number_are_no_line():
    assert paths(report_records.records()) == []
    assert paths(report_records.by_threads(2)) == []


def test_a_path_whose_rows_all_failed_is_a_line_without_efficiencies():
    assert efficiencies(line((1, None), (2, None))) == {1: None, 2: None}


def test_baselines_and_lowering_paths_have_lines_of_their_own():
    lines = paths(report_records.by_threads(1, 2))
    assert {"eager", "torchmlir-torch on llvm-cpu"} < {*lines}
    assert len(lines) == len({*lines})


def test_latencies_of_other_cpus_are_lines_of_their_own():
    row = ModelRows("m", "eval", "")
    for number, ms, cpu in ((1, 8.0, "old"), (2, 5.0, "new"), (4, 3.0, "new"), (8, None, "")):
        added(row, f"llvm-cpu+{number}-threads", ms, number, cpu=cpu)
    lines = row_views.scaling_lines(row)
    assert [*lines] == ["mlir on llvm-cpu (old)", "mlir on llvm-cpu (new)"]
    of_old, of_new = lines.values()
    assert efficiencies(of_old) == {1: 1.0, 8: None}
    assert efficiencies(of_new) == {2: 1.0, 4: pytest.approx(5.0 * 2 / (3.0 * 4)), 8: None}
