"""gbench: repetitions are read from google-benchmark's JSON, wherever its aggregates are."""

import json
import random

import pytest

from scripts.iree.session import BenchmarkError, read_ms


def repetition(index: int, real: float, unit: str = "ms", **more) -> dict:
    return {
        "name": "BM_main/real_time",
        "run_name": "BM_main/real_time",
        "run_type": "iteration",
        "repetition_index": index,
        "iterations": 7,
        "real_time": real,
        "cpu_time": 2 * real,
        "time_unit": unit,
        **more,
    }


def aggregate(name: str) -> dict:
    row = repetition(0, 99.0) | {"run_type": "aggregate", "aggregate_name": name}
    row["name"] += f"_{name}"
    del row["repetition_index"]
    return row


@pytest.fixture
def read(tmp_path):
    def read_rows(*rows: dict):
        path = tmp_path / "google-benchmark.json"
        path.write_text(json.dumps({"context": {}, "benchmarks": rows}))
        return read_ms(path)

    return read_rows


@pytest.mark.parametrize("seed", range(5))
def test_aggregates_are_left_out_and_repetitions_kept_in_order(read, seed):
    rows = [*(repetition(i, float(i + 1)) for i in range(3)), *map(aggregate, ("mean", "cv"))]
    random.Random(seed).shuffle(rows)
    assert read(*rows) == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(("unit", "ms"), [("ns", 1e-6), ("us", 1e-3), ("ms", 1.0), ("s", 1e3)])
def test_every_unit_comes_out_in_milliseconds(read, unit, ms):
    assert read(repetition(0, 5.0, unit)) == [pytest.approx(5.0 * ms)]


def test_an_error_of_the_benchmark_is_passed_on(read):
    failed = repetition(1, 0.0, error_occurred=True, error_message="device lost")
    with pytest.raises(BenchmarkError, match="device lost"):
        read(repetition(0, 1.0), failed)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([], "none"),
        ([aggregate("mean")], "none"),
        ([repetition(0, 1.0), repetition(0, 1.0, run_name="BM_other")], "BM_main.*BM_other"),
    ],
    ids=["no row", "aggregates only", "two benchmarks"],
)
def test_anything_but_one_benchmark_is_refused(read, rows, found):
    with pytest.raises(BenchmarkError, match=f"expected repetitions of one benchmark.*{found}"):
        read(*rows)
