"""Speed-ups over every baseline of a run: in each record, and columns of the CSV where there is such a baseline."""

import pytest

from scripts.results import columns, row_set, speedups
from scripts.results.columns import COLUMNS, FIELDS, OBJECT, Field
from scripts.results.row import Column
from tests.declared import undeclared
from tests.rows import record, steady

EAGER, OPENVINO, TORCH = Column("eager"), Column("openvino"), Column("torchmlir-torch", "llvm-cpu")
NAMES = ("speedup_vs_openvino", "speedup_vs_openvino_low", "speedup_vs_openvino_high")


@pytest.fixture
def rows() -> list[dict]:
    """Of two models. OpenVINO does not convert the second one."""
    found = [
        record(EAGER, steady(10)),
        record(OPENVINO, steady(4, 1)),
        record(TORCH, steady(8, 2)),
        record(EAGER, steady(10), model="n"),
        record(OPENVINO, model="n", status="unsupported"),
        record(TORCH, steady(8, 2), model="n"),
    ]
    speedups.add_speedups(found)
    return found


def test_every_row_is_compared_with_every_baseline_of_its_model(rows):
    eager, openvino, iree, _, failed, other = (one["latency"] for one in rows)
    ratio, low, high = (iree[name] for name in NAMES)
    assert ratio == pytest.approx(0.5)
    assert 0.4 < low < ratio < high < 0.6
    assert eager[NAMES[0]] == pytest.approx(0.4)
    assert [openvino[name] for name in NAMES] == [1.0, 1.0, 1.0]
    assert openvino["speedup_vs_eager"] == pytest.approx(2.5)
    assert failed is None
    assert [other[name] for name in NAMES] == [None, None, None]


def test_the_verdict_is_still_that_of_eager_and_inductor(rows):
    assert [one["latency"] and one["latency"]["verdict"] for one in rows[:3]] == [None, "faster", "faster"]  # fmt: skip


@pytest.mark.parametrize(
    ("section", "change"),
    [
        *(("experiment", change) for change in ({"test": "train"}, {"precision": "bf16"}, {"dtype": "f16"}, {"batch_size": 2}, {"device": "vulkan"})),
        *(("run", change) for change in ({"threads": 3}, {"device_name": "another"})),
        ("model", {"name": "n"}),
    ],
)  # fmt: skip
def test_rows_of_other_conditions_are_not_compared(section, change):
    rows = [record(EAGER, steady(10)), record(TORCH, steady(5)), record(TORCH, steady(5))]
    rows[2][section] |= change
    speedups.add_speedups(rows)
    of_eager, same, other = (row["latency"]["speedup_vs_eager"] for row in rows)
    assert (of_eager, same, other) == (1.0, pytest.approx(2.0), None)


def test_a_run_with_another_baseline_has_columns_for_it_after_those_of_inductor(rows):
    table = columns.with_bases(COLUMNS, rows)
    names = [one.column for one in table]
    at = names.index("speedup_vs_inductor_high") + 1
    assert tuple(names[at : at + 3]) == NAMES
    assert [*names[:at], *names[at + 3 :]] == [one.column for one in COLUMNS]
    of_latency = [one for one in table if one.column in ("latency_ms", *NAMES)]
    head, *lines = "".join(row_set.to_csv(rows, of_latency)).splitlines()
    assert head == ",".join(("latency_ms", *NAMES))
    assert lines[1] == "4,1,1,1"
    assert lines[2].startswith("8,0.5,")
    assert lines[4:] == [",,,", "8,,,"]


def test_a_run_of_eager_and_inductor_has_the_declared_columns():
    rows = [record(EAGER, steady(10)), record(TORCH, steady(8)), record(TORCH, model="n")]
    speedups.add_speedups(rows)
    assert columns.with_bases(COLUMNS, rows) == list(COLUMNS)


def test_a_baseline_with_arguments_of_its_own_counts_by_the_name_of_its_entry():
    rows = [record(EAGER, steady(10)), record(EAGER, steady(5, 1)), record(TORCH, steady(8, 2))]
    rows[1]["experiment"] |= {"target": "eager+rewrite+2-threads", "rewrites": "speed"}
    speedups.add_speedups(rows)
    assert rows[2]["latency"]["speedup_vs_eager+rewrite"] == pytest.approx(5 / 8)
    assert rows[2]["latency"]["speedup_vs_eager"] == pytest.approx(10 / 8)


def test_the_values_are_declared_and_checked(rows):
    speedup = next(one for one in FIELDS if "<runtime>" in one.path)
    problem = columns.checker((Field("latency", OBJECT, ""), speedup))
    assert problem({"latency": {NAMES[0]: 0.5, NAMES[1]: None}}) == ""
    assert problem({"latency": {NAMES[0]: "fast"}}).startswith("Expected `float | null`, got `str`")
    assert [path for path in undeclared({"latency": rows[2]["latency"]}) if "speedup" in path] == []
    assert list(undeclared({"latency": {"odd": 1}})) == ["latency.odd"]


FEW = "1 generation, 1 turn in the budget; an interval needs 5 generations; other processes used 95% of the cores (load 25)"


def test_a_ratio_without_an_interval_is_no_number():
    """Of a machine that was so busy that there was one turn: 5,431 ms beside 27.3 ms are not 199 times as fast."""
    rows = [record(EAGER, [5431.0], doubt=FEW), record(TORCH, [27.3], doubt=FEW)]
    speedups.add_speedups(rows)
    eager, iree = (row["latency"] for row in rows)
    assert [iree[f"speedup_vs_eager{end}"] for end in ("", "_low", "_high")] == [None] * 3
    assert (iree["unknown"], iree["verdict"], iree["doubt"]) == (["eager"], "undecided", FEW)
    assert (eager["speedup_vs_eager"], eager["unknown"]) == (1.0, [])


def test_a_ratio_with_an_interval_wider_than_half_of_it_is_no_number_and_decides_nothing():
    wide = [ms * (ms / 5000) ** 60 for ms in steady(5000, 1)]
    rows = [record(EAGER, wide, doubt="the machine was busy"), record(TORCH, steady(27))]
    speedups.add_speedups(rows)
    iree = rows[1]["latency"]
    assert iree["speedup_vs_eager"] is None
    assert 1 < iree["speedup_vs_eager_low"] < 150
    assert iree["speedup_vs_eager_high"] > 250
    assert (iree["unknown"], iree["verdict"]) == (["eager"], "undecided")
    assert iree["doubt"] == "not known how it compares with eager: the machine was busy"


def test_a_row_that_cannot_be_compared_has_no_doubt():
    rows = [record(EAGER, steady(10)), record(TORCH, steady(5), group="another")]
    speedups.add_speedups(rows)
    assert (rows[1]["latency"]["unknown"], rows[1]["latency"]["doubt"]) == ([], "")


def test_a_ratio_that_is_known_to_a_third_is_a_number():
    rows = [record(EAGER, [ms * (ms / 10) ** 25 for ms in steady(10, 1)]), record(TORCH, steady(1))]
    speedups.add_speedups(rows)
    iree = rows[1]["latency"]
    assert (iree["unknown"], iree["verdict"], iree["doubt"]) == ([], "faster", "")
    assert iree["speedup_vs_eager"] == pytest.approx(10, rel=0.05)
    assert iree["speedup_vs_eager_high"] > 1.3 * iree["speedup_vs_eager"]
