"""results_table: columns, marks, reasons and geometric means of the results table."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.measure.timing import ratios
from scripts.results import speedups
from scripts.results.results_table import Table
from scripts.results.row import Column
from tests.rows import real, record, steady, unsteady

TORCH, HLO = Column("torch", "cpu"), Column("hlo", "cpu")
EAGER, INDUCTOR = Column("eager"), Column("inductor")


def test_columns_are_baselines_then_the_lowering_paths_of_each_target_that_measured_something():
    shown = [column.label for column in real().columns]
    paths = ("torchmlir-torch", "torchmlir-stablehlo", "torchxla-stablehlo")
    assert shown == [
        *("eager", "inductor"),
        *(f"{path}/llvm-cpu" for path in paths),
        "torchmlir-stablehlo/vulkan",
    ]


def test_what_had_no_device_is_a_line_per_target_with_what_compiled_and_why_the_rest_did_not():
    baselines, cuda, rocm = real().absent
    assert (cuda.places, cuda.is_target, cuda.without_device, cuda.rows) == (("cuda",), True, 2, 4)
    assert cuda.detail.startswith("no device cuda: CUDA driver library")
    assert cuda.reasons == (("bufferization", 2),)
    assert rocm.reasons == (("shared-memory-limit", 2),)
    assert baselines.places == ("eager-cuda", "inductor-cuda")
    assert (baselines.is_target, baselines.rows, baselines.reasons) == (False, 4, ())


def test_a_target_without_a_device_that_no_row_lacks_is_a_column_of_reasons():
    rows = [record(EAGER, steady(1)), record(TORCH, reason="bufferization")]
    table = Table.of_records([*rows, record(EAGER, steady(1), model="n")])
    assert table.columns == (EAGER, TORCH)
    assert table.absent == ()
    assert table.rows[0].entries[TORCH].ended.reason == "bufferization"
    assert TORCH not in table.rows[1].entries


STEADIER = [record(TORCH, steady(5)), record(INDUCTOR, steady(9))]


@pytest.mark.parametrize(
    ("rows", "fastest"),
    [
        ([record(EAGER, steady(9)), record(TORCH, steady(5))], {TORCH}),
        # What cannot be told from the fastest is marked too.
        ([record(EAGER, steady(5.05, 1)), record(TORCH, steady(5)), record(HLO, steady(9))], {EAGER, TORCH}),
        # Latencies that move together are told apart.
        ([record(EAGER, unsteady(5.05)), record(TORCH, unsteady(5))], {TORCH}),
        # The interval of a ratio to the fastest is too wide to tell, but where it excludes 1.
        ([record(EAGER, unsteady(6, 1)), *STEADIER], set()),
        ([record(EAGER, unsteady(4, 1)), *STEADIER], set()),
        ([record(EAGER, unsteady(6, 1)), *STEADIER, record(HLO, steady(0.1))], {HLO}),
        ([record(EAGER, unsteady(600, 1)), record(TORCH, steady(5))], {TORCH}),
        # Only what is alike is compared.
        ([*STEADIER, record(HLO, steady(1), device="vulkan")], {TORCH}),
        ([*STEADIER, record(HLO, steady(1), precision="bf16")], {TORCH}),
        # There is nothing to compare with.
        ([record(TORCH, steady(5)), record(HLO)], set()),
        # A latency without an interval is not marked, and nothing is if it is the lowest.
        ([*STEADIER, record(HLO, [4.0, 4.0], group="another")], set()),
        ([*STEADIER, record(HLO, [7.0, 7.0], group="another")], {TORCH}),
    ],
)  # fmt: skip
def test_the_fastest_is_marked_with_what_cannot_be_told_from_it(rows, fastest):
    [row] = Table.of_records(rows).rows
    assert row.fastest == fastest


latencies = st.lists(st.floats(0.5, 50), min_size=6, max_size=6)


@given(st.lists(latencies, min_size=2, max_size=5))
def test_a_mark_means_that_the_ratio_to_the_fastest_is_known_to_be_about_1(values):
    columns = [Column(f"f{number}", "cpu") for number in range(len(values))]
    [row] = Table.of_records(map(record, columns, values)).rows
    known = {column: entry.timing.latency for column, entry in row.entries.items()}
    best = min(known, key=lambda column: known[column]["ms"])
    ratios_to_it = {
        column: speedups.difference(one, known[best]).interval()
        for column, one in known.items()
        if column != best
    }
    close = {column for column, ratio in ratios_to_it.items() if ratio.low <= 1}
    is_known = all(ratios_to_it[column].half_width <= math.log(1.25) for column in close)
    assert row.fastest == ({best, *close} if is_known else set())


def mean_of(table: Table, column: Column, test="eval"):
    return next(one for one in table.means if (one.column, one.test) == (column, test))


def test_a_geometric_mean_is_of_the_speed_ups_of_a_column_with_its_pass_rate():
    rows = [
        *(record(EAGER, steady(10), model=m) for m in "abc"),
        *(record(INDUCTOR, steady(5), model=m) for m in "ab"),
        record(TORCH, steady(5, 1), model="a"),
        record(TORCH, steady(20, 2), model="b"),
        record(TORCH, model="c"),
    ]
    table = Table.of_records(rows)
    found = mean_of(table, TORCH)
    assert (found.verified, found.rows) == (2, 3)
    over_eager, over_both = found.over
    assert (over_eager.interval.ratio, over_eager.count) == (pytest.approx(1.0), 2)
    assert over_eager.interval.low < 1 < over_eager.interval.high
    assert over_both.interval.ratio == pytest.approx(math.sqrt(1.0 * 0.25))
    of_rows = [ratios.paired(steady(10), steady(5, 1)), ratios.paired(steady(10), steady(20, 2))]
    assert over_eager.interval == ratios.mean(of_rows).interval()
    inductor = mean_of(table, INDUCTOR)
    assert inductor.over[0].interval.ratio == pytest.approx(2.0)
    assert inductor.over[1] is None
    assert EAGER not in [one.column for one in table.means]
    assert (table.bases, Table.of_records([rows[0], rows[5]]).bases) == ([0, 1], [0])


def test_a_mean_is_of_the_rows_whose_speed_up_has_an_interval():
    rows = [
        record(EAGER, steady(1000)[:2], model="a"),
        record(TORCH, steady(5)[:2], model="a"),
        record(EAGER, steady(10), model="b"),
        record(TORCH, steady(5), model="b"),
    ]
    [speedup, _] = mean_of(Table.of_records(rows), TORCH).over
    assert (speedup.interval.ratio, speedup.count) == (pytest.approx(2.0), 1)


def test_a_test_is_a_row_of_its_own_with_means_of_its_own():
    rows = [
        *(record(EAGER, steady(10), test=test) for test in ("eval", "train")),
        record(INDUCTOR, steady(5), test="eval"),
        record(INDUCTOR, steady(20), test="train"),
    ]
    table = Table.of_records(rows)
    assert [row.label for row in table.rows] == ["m", "m (train)"]
    assert mean_of(table, INDUCTOR, "train").over[0].interval.ratio == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("of", "size"),
    [
        ({}, ""),
        ({"options": {"size": "tiny"}}, "tiny"),
        ({"reference": {"resolved": {"size": "block"}, "layers": 2}}, "block, 2 layers"),
        ({"reference": {"resolved": {}, "layers": 12}}, "12 layers"),
    ],
)
def test_a_model_says_how_large_it_is(of, size):
    [row] = Table.of_records([record(EAGER, steady(1), **of)]).rows
    assert row.size == size


def test_the_provenance_counts_what_was_measured_on_what_and_when():
    of = real().provenance
    assert (of.rows, of.measured) == (38, 22)
    assert (of.ratios, of.decided) == (32, 32)
    assert of.where == [
        "cpu: AMD EPYC, 2 threads",
        "vulkan: llvmpipe (LLVM 15.0.6, 256 bits) (llvmpipe Mesa 22.3.6 (LLVM 15.0.6))",
    ]
    assert "IREE 3.13.0" in of.measured_with
    assert of.when.startswith("2026-11-22 ")
    assert of.when.endswith(" UTC")
    assert of.entries["targets"]["llvm-cpu"] == ["llvm-cpu, host, O3"]
    assert of.models["bert"] == "seq_len=128"
    assert of.models["llama-decode"] == (
        "size=block, phase=decode, batch_size=1, seq_len=128, cache_len=160, pretrained=False, "
        "dtype=f32, seed=0, layers=2, vocab_size=8192"
    )


@pytest.mark.parametrize(
    ("values", "decided"),
    [
        (steady(5), 1),
        (steady(10.0, 1), 1),
        (steady(20), 1),
        (unsteady(10, 1), 0),
        (steady(5)[:2], 0),
    ],
)
def test_a_ratio_is_decided_if_its_interval_says_faster_slower_or_the_same(values, decided):
    rows = [record(EAGER, steady(10)[: len(values)]), record(TORCH, values)]
    speedups.add_speedups(rows, lambda _: ())
    of = Table.of_records(rows).provenance
    assert (of.ratios, of.decided) == (1, decided)


def test_the_doubts_are_of_rows_and_columns():
    rows = [record(EAGER, steady(9), doubt="why"), record(TORCH, steady(5), doubt="why")]
    rows += [
        record(EAGER, steady(9), model="n", doubt="other"),
        record(TORCH, steady(5), model="n"),
    ]
    assert Table.of_records(rows).doubts == {("m", "why"): [EAGER, TORCH], ("n", "other"): [EAGER]}


def test_a_target_and_a_baseline_of_one_name_are_two():
    rows = [
        record(EAGER, steady(10)),
        record(Column("cuda"), steady(3), device="cuda"),
        record(Column("torch", "cuda"), status="unavailable"),
    ]
    table = Table.of_records(rows)
    assert [one.places for one in table.absent] == [("cuda",)]
    assert table.columns == (EAGER, Column("cuda"))
