"""columns: one table, and the row, dtypes, checks and page that come from it."""

import copy
import dataclasses
import re
from pathlib import Path

import pytest

from scripts.cli import docs
from scripts.core.tensors import Signature
from scripts.measure.timing.calls import Run
from scripts.measure.verify.verification import Verification, Verified
from scripts.results import columns, latency_page, record, row_set
from scripts.results.columns import COLUMNS, FIELDS, INTEGER, NUMBER, TEXT, Field
from scripts.supervise.outcome import Outcome
from tests.declared import undeclared

PAGE = Path(__file__).parents[2] / "docs" / "columns.md"

UNITS = {"ms": "ms", "s": "s", "bytes": "bytes", "mb": "MiB", "db": "dB"}
"""What the end of a name says of its unit."""


def test_the_page_is_the_tables():
    sets = row_set.loaded()
    assert PAGE.read_text(encoding="utf-8") == docs.page(sets), "run vmfbench docs"
    fields_csv = PAGE.with_name("columns.csv").read_text(encoding="utf-8")
    assert fields_csv == docs.fields_csv(sets), "run vmfbench docs"
    of_runs = [line for line in fields_csv.splitlines() if line.startswith("results.jsonl,")]
    assert len(of_runs) == sum(bool(declared.path) for declared in FIELDS)


def test_no_column_and_no_field_is_declared_twice():
    names = [one.column for one in FIELDS if one.column]
    paths = [one.path for one in FIELDS if one.path]
    assert len(names) == len(set(names))
    assert len(paths) == len(set(paths))
    assert all(one.column for one in COLUMNS)


@pytest.mark.parametrize("one", FIELDS, ids=lambda one: one.path or one.column)
def test_every_value_is_described_and_every_number_has_the_unit_that_its_name_says(one):
    assert re.fullmatch(r"(?s)\S.*\.", one.description)
    assert bool(one.path) != bool(one.value)
    if one.kind in (INTEGER, NUMBER):
        assert one.unit
    for name in filter(None, (one.column, one.path)):
        ending = name.rpartition("_")[2]
        if ending in UNITS and not name.endswith("_per_s"):
            assert one.unit == UNITS[ending]


def test_every_value_of_a_record_is_declared(results, ended):
    results.matrix = dataclasses.replace(results.matrix, tests=("eval", "train"))
    results.write(ended("error", "verify", "conv/mlir/vulkan", "wrong-result"))
    assert [path for one in record.records(results.matrix) for path in undeclared(one)] == []
    odd = {"run": {"odd": 1}, "runs": [{"odd_s": 1}], "model": {"options": {"any": 1}}, "more": 1}
    assert list(undeclared(odd)) == ["run.odd", "runs[].odd_s", "more"]


@pytest.mark.parametrize(
    ("section", "recorded", "made_here"),
    [
        ("run", Verified, {"stage_rss_mb", "seconds"}),
        ("runs[]", Run, set()),
        ("verification", Verification, set()),
        ("outcome", Outcome, {"stale"}),
        ("reference", Signature, {"digests"}),
    ],
)
def test_what_a_record_takes_over_is_what_its_stages_write(section, recorded, made_here):
    names = set(columns.names(FIELDS, section)) - made_here
    assert names <= {field.name for field in dataclasses.fields(recorded)}


@pytest.fixture
def table():
    """The table with a column more, of a verification's."""
    words = ("run.clock_mhz", INTEGER, "Clock of the CPU.", "MHz", "clock_mhz")
    return (*FIELDS, Field(*words, nullable=True, varies=True))


def test_a_column_is_added_in_one_place(table, results, monkeypatch):
    monkeypatch.setattr(record, "_OF_RUN", columns.names(table, "run"))
    results.write()
    path = Path("results/verify/conv/mlir/vulkan/verification.json")
    path.write_text(path.read_text().replace('"threads"', '"clock_mhz": 3000, "threads"'))
    found = record.records(results.matrix)
    rows = [columns.as_row(one, table) for one in found]
    assert [row["clock_mhz"] for row in rows[:3]] == [None, 3000, None]
    assert list(rows[0]) == [*(one.column for one in COLUMNS), "clock_mhz"]
    assert columns.dtypes(table)["clock_mhz"] == "Int64"
    line = "| `clock_mhz` | integer, MHz, varies | Clock of the CPU. |"
    with_clock = dataclasses.replace(latency_page.ROW_SET, described=table)
    assert line in docs.page([with_clock]).splitlines()
    problem = columns.checker(table)
    assert not any(map(problem, found))
    found[1]["run"]["clock_mhz"] = 2.5
    assert problem(found[1]) == "Expected `int | null`, got `float` - at `$.run.clock_mhz`"


@pytest.mark.parametrize(
    ("path", "value", "valid"),
    [
        ("latency.ttft_ms", 0.0, False),
        ("latency.p99_ms", None, True),
        ("latency.p50_ms", None, False),
        ("runs.0.more", 1, False),
        ("experiment.phase", None, True),
        ("experiment.phase", "encode", False),
        ("experiment.device", "tpu", False),
        ("reference.size", 1, False),
        ("reference.quantization", {"float_bytes": 2**60, "sqnr_db": None}, True),
        ("versions.other", "1.0", True),
        ("versions.other", 1, False),
    ],
)
def test_a_record_is_checked_by_the_types_limits_and_choices_of_the_table(
    results, path, value, valid
):
    results.write()
    one = copy.deepcopy(record.records(results.matrix)[0])
    *above, last = path.split(".")
    inside = one
    for key in above:
        inside = inside[int(key) if key.isdigit() else key]
    inside[last] = value
    assert (not columns.checker(FIELDS)(one)) == valid


def test_what_a_record_must_have_may_not_be_left_out(results):
    results.write()
    problem = columns.checker(FIELDS)
    whole = record.records(results.matrix)[0]
    for one in FIELDS:
        found = copy.deepcopy(whole)
        *above, last = one.path.replace("[]", ".0").split(".") if one.path else [""]
        inside = found
        for key in above:
            inside = (inside or [{}])[int(key)] if key.isdigit() else inside.get(key) or {}
        if last in inside:
            del inside[last]
            assert (not problem(found)) == one.optional, one.path


def test_integers_of_any_size_print_whole_and_lists_as_one_text(results):
    results.write()
    found = record.records(results.matrix)
    found[0]["reference"] |= {"weights_bytes": 2**60 + 1, "quantization": {"float_bytes": 3 * 2**60 + 1}}  # fmt: skip
    found[0]["export"]["rewrites"] = ["tril", "avg_pool"]
    line = "".join(row_set.to_csv(found, COLUMNS)).splitlines()[1]
    assert ",tril; avg_pool,,,1152921504606846977,3458764513820540929,," in line


def test_an_empty_text_is_an_empty_cell_and_zero_is_not():
    text, number = Field("a.b", TEXT, "", column="t"), Field("a.c", NUMBER, "", column="n")
    record = {"a": {"b": "", "c": 0.0}}
    assert columns.as_row(record, (text, number)) == {"t": None, "n": 0.0}
    assert columns.as_row({"a": None}, (text, number)) == {"t": None, "n": None}
