"""rounds: a row combines both rounds; the second can fail the row, and may be left out."""

import dataclasses
import json
from pathlib import Path

import jsonschema
import pytest

from scripts.lib.baseline.measure import measure as measure_baseline
from scripts.lib.report import coverage, fields, latency_section, record
from scripts.lib.report.columns import FIELDS
from scripts.lib.timing import rounds
from scripts.lib.timing.calibration import Calibration
from scripts.lib.timing.latency import HostLoad, Latency
from scripts.lib.timing.rounds import FirstRound
from scripts.lib.timing.stopping import Schedule, StoppingRule

IREE = "conv/mlir/llvm-cpu"
VALID = jsonschema.Draft202012Validator(fields.schema(FIELDS)).is_valid


@pytest.fixture
def twice(results):
    """A tree of runs that measure in two rounds."""
    results.matrix = dataclasses.replace(results.matrix, measure={"rounds": 2})
    return results


def of(tree, cell: str) -> dict:
    """The record of a cell; all of them meet the schema."""
    found = record.records(tree.matrix)
    assert all(map(VALID, found))
    at = [str(row) for row in tree.matrix.rows()].index(cell)
    return found[at]


def again(tree, cell: str, values: tuple[float, ...], **changes) -> None:
    """Write the second round of an IREE cell."""
    path = Path(f"results/measure_again/{cell}/measurement.json")
    tree.measure(path, latency=Latency(values, values, 9), **changes)


def test_a_row_is_of_both_rounds_and_its_cold_run_is_the_first_ones(twice):
    twice.write()
    again(twice, IREE, (8.0, 9.0), load_ms=99.0, first_call_ms=88.0, max_rss_mb=1.0)
    found = of(twice, IREE)
    assert found["latency"]["values_ms"] == [4.0, 5.0, 6.0, 8.0, 9.0]
    assert (found["latency"]["median_ms"], found["latency"]["repetitions"]) == (6.0, 5)
    assert [one["repetitions"] for one in found["latency"]["rounds"]] == [3, 2]
    run = found["run"]
    assert (run["load_ms"], run["first_call_ms"], run["max_rss_mb"]) == (3.0, 30.0, 200.0)
    assert [one["iterations"] for one in found["runs"]] == [1, 7, 7, 7, 9, 9]
    assert found["runs"][4]["total_s"] == pytest.approx(0.072)
    assert (found["outcome"]["status"], found["outcome"]["stage"]) == ("ok", "measure")


def test_the_runs_of_a_baseline_have_one_cold_run(twice):
    twice.write()
    assert [run["iterations"] for run in of(twice, "conv/eager/eval")["runs"]] == [1] + 6 * [7]


def test_the_busier_round_counts_and_so_does_what_changed_between_the_rounds(twice):
    twice.write()
    values = (5.0,) * 6
    first = Path(f"results/measure/{IREE}/measurement.json")
    slow = Calibration("A CPU", 4, (0.02, 0.02), (0.01, 0.01))
    twice.measure(first, latency=Latency(values, values, 7), calibration=slow)
    fast = Calibration("A CPU", 4, (0.01, 0.02), (0.01, 0.01))
    again(twice, IREE, values, host=HostLoad(0.1, 0.2), calibration=fast)
    found = of(twice, IREE)
    assert found["run"]["host"] == {"foreign": 0.1, "steal": 0.2}
    assert found["latency"]["machine_drift"] == pytest.approx(2**0.5 - 1)
    assert found["latency"]["trust"] == "low"
    assert found["latency"]["trust_reasons"] == [
        "other processes took 10% of the cores",
        "the hypervisor took 20% of the cores",
        "the machine's speed changed by 41%",
    ]


@pytest.mark.parametrize(
    ("stage", "cell"), [("measure_again", IREE), ("baseline_again", "conv/eager/eval")]
)
@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        ("error", "wrong-result", "FAIL"),
        ("crashed", "SIGSEGV", "EXCEPTION_RAISED"),
        ("timeout", "time-limit", "VERIFIER_DIDNT_RUN"),
    ],
)
def test_a_second_round_that_fails_takes_the_first_ones_latency_back(
    twice, ended, stage, cell, status, reason, code
):
    twice.write(ended(status, stage, cell, reason))
    found = of(twice, cell)
    assert (found["latency"], found["runs"]) == (None, None)
    result = found["outcome"]
    assert [result[key] for key in ("status", "stage", "reason")] == [status, stage, reason]
    assert (result["log"], result["blocked_by"]) == (f"results/{stage}/{cell}/log.txt", "")
    assert found["verification"]["code"] == code


def test_coverage_counts_a_cell_that_failed_in_its_second_round_as_failed_at_measure(twice, ended):
    twice.write(ended("crashed", "measure_again", IREE, "SIGSEGV"))
    [found, *_] = coverage.iree_cells([of(twice, IREE)])
    assert (found.ending, found.mark, found.reached) == ("measure", "✗ measure crashed", "compile")
    twice.write(ended("crashed", "baseline_again", "conv/eager/eval", "SIGSEGV"))
    assert coverage.baseline_mark(of(twice, "conv/eager/eval")) == "✗ SIGSEGV"


def test_a_first_round_that_fails_is_the_row_and_blocks_the_second_alone(twice, ended):
    twice.write(ended("unavailable", "measure", IREE, "no-device"))
    result = of(twice, IREE)["outcome"]
    assert [result[key] for key in ("status", "stage", "blocked_by")] == ["unavailable", "measure", ""]  # fmt: skip
    blocked = json.loads(Path(f"results/measure_again/{IREE}/status.json").read_text())
    assert (blocked["status"], blocked["blocked_by"]) == ("skipped", f"measure {IREE}")


def test_a_second_round_that_is_left_out_leaves_the_row_of_the_first_and_says_why(twice):
    twice.write()
    rounds.write_not_timed(Path(f"results/measure_again/{IREE}/measurement.json"), "slow calls")
    found = of(twice, IREE)
    assert (found["outcome"]["status"], found["latency"]["repetitions"]) == ("ok", 3)
    assert found["latency"]["no_interval"] == "one round: slow calls"


def test_measurements_of_before_there_were_rounds_are_still_rows(results):
    results.write()
    path = Path(f"results/measure/{IREE}/measurement.json")
    old = json.loads(path.read_text())
    for key in ("started", "calibration"):
        del old[key]
    del old["latency"]["call_ms"]
    path.write_text(json.dumps(old | {"trust": {"grade": "high", "reasons": []}}))
    found = of(results, IREE)["latency"]
    assert (found["repetitions"], found["machine_speed"], found["machine_drift"]) == (3, None, None)


RULE = StoppingRule(repeat=10, budget_s=5, rounds=2)


@pytest.mark.parametrize(
    ("first", "rule", "why"),
    [
        (FirstRound(0.1, 5), RULE, ""),
        (FirstRound(1.6, 3), RULE, ""),
        (FirstRound(2.4, 2), RULE, "calls of 2.4 s: 2 in the first round took the budget of 5 s"),
        (FirstRound(13, 1), RULE, "calls of 13 s: 1 in the first round took the budget of 5 s"),
        (FirstRound(0.1, 2), dataclasses.replace(RULE, repeat=3), ""),
        (FirstRound(0.1, 1), dataclasses.replace(RULE, repeat=1), "measure.repeat is 1"),
    ],
)
def test_a_second_round_is_left_out_where_the_first_took_the_budget(first, rule, why):
    assert first.why_last(rule) == why


def test_a_second_round_takes_its_share_of_calls_as_long_as_the_first_ones(tmp_path):
    values = {"latency": {"values_ms": [10.0, 30.0, 20.0], "iterations": 5}}
    (tmp_path / "measurement.json").write_text(json.dumps(values))
    first = FirstRound.read(tmp_path / "measurement.json")
    assert first == FirstRound(0.02, 3)
    assert first.schedule(RULE) == Schedule(iterations=5, repetitions=5, warmup_s=0.5)
    assert first.schedule(RULE, 0.001) == first.schedule(RULE)
    slower = Schedule(iterations=1, repetitions=3, warmup_s=0.5)
    assert first.schedule(RULE, 1.0) == slower  # else it would take ten times its budget


def test_a_second_round_that_is_left_out_loads_nothing(tmp_path):
    out = tmp_path / "measurement.json"
    measure_baseline(None, None, RULE, [], out, FirstRound(13, 1))
    assert json.loads(out.read_text())[rounds.NOT_TIMED].startswith("calls of 13 s")


def test_an_outcome_of_the_second_round_is_not_asked_for_where_there_is_none(results):
    results.write()
    assert not Path("results/measure_again").exists()
    assert of(results, IREE)["outcome"]["status"] == "ok"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"latency": null}', '{"latency": {"values_ms": ["x"]}}'])  # fmt: skip
def test_a_second_round_after_no_measurement_says_which_file_it_is(tmp_path, capsys, text):
    path = tmp_path / "measurement.json"
    path.write_text(text)
    with pytest.raises(SystemExit):
        FirstRound.read(path)
    said = capsys.readouterr().err
    assert said.startswith(f"error: {path}: not the measurement of a first round (")
    assert said.count("\n") == 1


def test_only_forward_passes_have_the_figures_of_language_models(monkeypatch):
    monkeypatch.setattr(latency_section, "figures", lambda timed: {"median_ms": 4.0})
    assert latency_section.of([], "eval", "prefill", 1)["ttft_ms"] == 4.0
    assert latency_section.of([], "eval", "decode", 2)["tokens_per_s"] == 500
    assert latency_section.of([], "train", "prefill", 1) == {"median_ms": 4.0}
