"""limits: how close a row is to what its device can do, and when there is no such figure."""

import dataclasses
from pathlib import Path

import pytest

from scripts.core import atomic
from scripts.measure.timing.machine_limits import PRODUCT, TRIAD, MachineLimits, Sample
from scripts.results import record, speedups
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome, Usage
from tests.rows import latency, steady

WORK = {
    "flop": 2 * 10**9,
    "weight_bytes": 6 * 10**8,
    "input_bytes": 3 * 10**8,
    "output_bytes": 10**8,
    "no_formula": {"aten.relu.default": 2},
}
LIMITS = MachineLimits(
    device="cpu",
    device_name="A CPU",
    threads=4,
    measured_at=0.0,
    samples=(
        Sample(TRIAD, "torch", "f32", 10**9, (0.1,)),  # 10 GB/s
        Sample(PRODUCT, "torch", "f32", 1000, (0.02,)),  # 100 GFLOP/s
    ),
)


def row(ms: float = 200.0, generations: int = 6, **run) -> dict:
    """A record in float32 that was timed in so many generations."""
    return {
        "experiment": {"device": "cpu", "dtype": "f32", "precision": "none"},
        "export": None,
        "run": {"device_name": "A CPU", "threads": 4} | run,
        "latency": latency(steady(ms)[:generations]),
    }


def test_a_row_says_how_close_it_is_to_the_limit_and_how_sure_that_is():
    found = speedups.work_section(row(), WORK, [LIMITS])
    assert found["gflop"] == pytest.approx(2)
    assert found["moved_bytes"] == 10**9
    assert found["gflop_per_s"] == pytest.approx(10)
    assert found["gb_per_s"] == pytest.approx(5)
    assert found["limit_ms"] == pytest.approx(100)
    assert (found["limited_by"], found["no_limit_share"]) == ("memory", None)
    assert found["limit_share"] == pytest.approx(0.5)
    assert 0.4 < found["limit_share_low"] < 0.5 < found["limit_share_high"] < 0.6


def test_a_program_with_many_operations_is_limited_by_computing():
    found = speedups.work_section(row(), WORK | {"flop": 10**11 // 8}, [LIMITS])
    assert (found["limited_by"], found["limit_ms"]) == ("compute", pytest.approx(125))


def test_a_call_that_is_faster_than_the_device_can_be_is_a_failed_check_and_no_number():
    found = speedups.work_section(row(80.0), WORK, [LIMITS])
    assert found["limit_share"] is found["limit_share_low"] is None
    assert "A CPU needs 100 ms for 1e+03 MB: the count or the limits are wrong" in found["no_limit_share"]  # fmt: skip
    assert found["gb_per_s"] == pytest.approx(12.5)
    alone = speedups.work_section(row(99.0, generations=2), WORK, [LIMITS])
    assert alone["limit_share"] is None
    assert alone["no_limit_share"]


def test_a_graph_that_was_rewritten_for_speed_may_need_less_than_was_counted():
    one = row(80.0) | {"export": {"rewrites": ["x", "project-before-aggregation"]}}
    said = speedups.work_section(one, WORK, [LIMITS])["no_limit_share"]
    assert said.endswith(", or the rewrite project-before-aggregation saves work")


def test_products_of_another_precision_have_no_share_on_a_gpu():
    one = row()
    one["experiment"] |= {"device": "cuda", "matmul_precision": "high"}
    assert "precision high" in speedups.work_section(one, WORK, [LIMITS])["no_limit_share"]


def test_a_share_above_one_within_its_interval_is_shown():
    found = speedups.work_section(row(99.9), WORK, [LIMITS])
    assert found["no_limit_share"] is None
    assert found["limit_share"] > 1 > found["limit_share_low"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"device_name": "Another CPU"}, "measured on Another CPU with 4 threads, but the limits are those of A CPU"),
        ({"threads": 1}, "measured on A CPU with 1 threads, but the limits are those of A CPU with 4 threads"),
    ],
)  # fmt: skip
def test_limits_of_another_machine_are_not_used(change, why):
    found = speedups.work_section(row(**change), WORK, [LIMITS])
    assert found["limit_share"] is None
    assert why in found["no_limit_share"]


def test_without_limits_or_counts_the_row_says_so():
    found = speedups.work_section(row(), WORK, [])
    assert found["no_limit_share"] == (
        "the limits of A CPU with 4 threads were not measured (`snakemake machine_limits` does; results/machine_limits/cpu/status.json)"
    )
    assert found["gb_per_s"] == pytest.approx(5)
    assert speedups.work_section(row(), None, [LIMITS])["no_limit_share"] == speedups.NOT_COUNTED
    failed = speedups.work_section(row() | {"latency": None}, WORK, [LIMITS])
    assert failed["gflop"] == pytest.approx(2)
    assert failed["no_limit_share"] is None


def test_bytes_are_not_stated_for_another_precision_than_the_models():
    one = row()
    one["experiment"]["precision"] = "bf16"
    found = speedups.work_section(one, WORK, [LIMITS])
    assert found["moved_bytes"] is found["gb_per_s"] is found["limit_share"] is None
    assert "not for bf16" in found["no_limit_share"]


def test_records_read_the_work_from_the_signature_and_the_limits_from_their_file(results):
    results.write()
    path = Path("results/reference/conv/signature.json")
    atomic.write_json(path, atomic.read_json(path) | {"work": WORK})
    found = row_of_conv(results)
    assert "were not measured" in found["work"]["no_limit_share"]
    assert found["reference"]["work"]["no_formula"] == WORK["no_formula"]
    file = Path("results/machine_limits/cpu/limits.json")
    file.parent.mkdir(parents=True)
    fast = [dataclasses.replace(one, seconds=(one.seconds[0] / 100,)) for one in LIMITS.samples]
    dataclasses.replace(LIMITS, samples=tuple(fast)).write(file)
    share = row_of_conv(results)["work"]
    assert share["limit_share"] == pytest.approx(1.0 / 5.0)
    assert share["limit_share_low"] < share["limit_share"] < share["limit_share_high"]


def test_damaged_limits_are_left_out_with_a_note_and_measured_again(results, capsys):
    results.write()
    file = Path("results/machine_limits/cpu/limits.json")
    file.parent.mkdir(parents=True)
    LIMITS.write(file)
    usage = Usage(1.0, 9.0, {file.name: atomic.digest_of(file)})
    outcome.write(file.with_name("status.json"), Outcome("ok", "machine_limits", "cpu"), usage)
    assert speedups.read_limits(["cpu"]) == [LIMITS]
    file.write_text(file.read_text()[:-9])
    assert speedups.read_limits(["cpu"]) == []
    assert f"note: {file} is damaged: " in capsys.readouterr().err
    assert outcome.read(file.with_name("status.json")).status == "damaged"


def row_of_conv(results) -> dict:
    """The record of conv/mlir/llvm-cpu, of which a call took 5 ms on `A CPU` with 4 threads."""
    found = record.records(results.matrix)[0]
    assert found["latency"]["ms"] == pytest.approx(5.0)
    return found
