"""scripts.compare: what has changed between two runs, and what is not compared."""

from __future__ import annotations

import copy
import json
import math
import random
import re
import subprocess
import sys

import pytest

from scripts import compare as command
from scripts.lib.comparison import formats, outcomes, pairs
from scripts.lib.comparison.compare import compare
from scripts.lib.comparison.decisions import FASTER, SLOWER, UNDECIDED
from scripts.lib.comparison.settings import KEYS, Settings
from scripts.lib.config import schemas
from scripts.lib.report.results_file import cell_of
from tests.report_records import records, remedied


@pytest.fixture
def before():
    return records()


@pytest.fixture
def after(before):
    return copy.deepcopy(before)


def cell(rows, name):
    """The row of a cell."""
    return next(one for one in rows if str(cell_of(one)) == name)


BERT = "bert/torchmlir-torch/llvm-cpu"
ONE_ROUND = "resnet/torchmlir-stablehlo/vulkan"
"""A row of a single round, which has no interval."""


def fail(row, stage="compile", reason="bufferization", status="error"):
    row["outcome"] |= {
        "status": status,
        "stage": stage,
        "reason": reason,
        "detail": "what went wrong",
    }
    row["verification"] = {"code": "VERIFIER_DIDNT_RUN"}
    row["latency"] = row["runs"] = None


def made_wrong(row):
    fail(row, "measure", "wrong-result")
    row["verification"] = {"code": "FAIL"}


def times(row, factor, spread=0.0, seed=0):
    """Set the repetitions of a row: 100 ms times a factor."""
    draw = random.Random(seed)
    latency = row["latency"]
    latency["values_ms"] = [
        100 * factor * math.exp(draw.gauss(0, spread)) for _ in latency["values_ms"]
    ]
    latency["median_ms"] = 100 * factor
    for one in latency["rounds"]:
        one |= {"foreign": 0.0, "steal": 0.0, "compute_s": [0.01, 0.01], "memory_s": [0.01, 0.01]}


def compared(before, after, settings=None):
    return compare(pairs.of_files(before, after), "before", "after", settings or Settings())


def kinds(found):
    return {one.cell: one.kind for one in found.outcomes}


def test_a_run_compared_with_itself_has_no_alarm(before):
    found = compared(before, before)
    assert (found.cells, found.unchanged) == (len(before), len(before))
    assert (found.outcomes, found.amounts, found.versions, found.alarms) == ((), (), (), [])
    assert {one.ratio for one in found.latencies} == {1.0}
    assert {one.verdict for one in found.latencies} <= {"same", UNDECIDED}


def test_changes_of_outcomes_are_named_and_only_those_for_the_worse_are_alarms(before, after):
    ok = [name for one in before if one["latency"] and (name := str(cell_of(one)))][:6]
    broken, fixed, wrong, right, other, by_remedy = ok
    fail(cell(after, broken))
    fail(cell(before, fixed))
    made_wrong(cell(after, wrong))
    made_wrong(cell(before, right))
    fail(cell(before, other), reason="bufferization")
    fail(cell(after, other), reason="shared-memory-limit")
    row = remedied(cell(after, by_remedy), "O1", "torchmlir-torch")
    row["remedy"]["first"] |= {"reason": "stack-limit", "detail": "too large a stack"}
    after[after.index(cell(after, by_remedy))] = row
    gone = str(cell_of(after.pop()))
    found = compared(before, after)
    assert kinds(found) == {
        broken: outcomes.BROKEN,
        fixed: outcomes.FIXED,
        wrong: outcomes.NEWLY_WRONG,
        right: outcomes.NEWLY_RIGHT,
        other: outcomes.OTHER_REASON,
        by_remedy: outcomes.BROKEN,
        gone: outcomes.GONE,
    }
    assert {one.cell for one in found.alarms} == {broken, wrong, by_remedy}
    said = {one.cell: one for one in found.outcomes}
    assert (said[broken].before, said[broken].after) == ("ok", "compile: bufferization")
    assert said[by_remedy].after == "compile: stack-limit (compiled by remedy)"
    assert said[by_remedy].detail == "too large a stack"
    assert kinds(compared(after, before))[gone] == outcomes.NEW


def test_a_machine_without_the_device_is_no_failure(before, after):
    fail(cell(after, BERT), "measure", "no-device", "unavailable")
    found = compared(before, after)
    assert kinds(found) == {BERT: outcomes.DEVICE}
    assert not found.alarms


def quiet(rows, factors=()):
    """Give all rows latencies with little noise, and some of them a factor."""
    for number, one in enumerate(one for one in rows if one["latency"]):
        times(one, dict(factors).get(str(cell_of(one)), 1.0), 0.003, number)
    return rows


def test_a_slower_and_a_faster_cell_are_found_among_equal_ones(before, after):
    names = [str(cell_of(one)) for one in before if one["latency"]]
    found = compared(quiet(before), quiet(after, [(names[0], 1.3), (names[1], 0.7)]))
    verdicts = {one.cell: one.verdict for one in found.latencies}
    assert verdicts.pop(names[0]) == SLOWER
    assert verdicts.pop(names[1]) == FASTER
    assert not {SLOWER, FASTER} & set(verdicts.values())
    assert [one.cell for one in found.alarms] == [names[0]]


def test_a_slow_down_below_the_threshold_is_no_alarm(before, after):
    name = str(cell_of(next(one for one in before if one["latency"])))
    found = compared(quiet(before), quiet(after, [(name, 1.3)]), Settings(latency=1.5))
    assert {one.cell: one.verdict for one in found.latencies}[name] == SLOWER
    assert not found.alarms
    assert not compared(before, after, Settings(latency=None)).alarms


def test_a_slower_machine_makes_intervals_wider_and_no_cell_slower(before, after):
    quiet(before), quiet(after)
    for one in after:
        if one["latency"]:
            one["latency"]["values_ms"] = [value * 1.3 for value in one["latency"]["values_ms"]]
            for of in one["latency"]["rounds"]:
                of |= {"compute_s": [0.013, 0.013], "memory_s": [0.013, 0.013]}
    found = compared(before, after)
    assert found.speed == pytest.approx(1 / 1.3)
    assert not {one.verdict for one in found.latencies} - {UNDECIDED}
    for mean in found.means:
        assert mean.low < 1 < mean.high
    assert "× the speed of before" in formats.as_text(found)


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("run.device_name", "another CPU", "device: cpu AMD EPYC before, cpu another CPU after"),
        ("run.threads", 1, "threads: 2 before, 1 after"),
        ("experiment.batch_size", 4, "batch size: 1 before, 4 after"),
        ("model.options", {"seq_len": 64}, "options of the model: seq_len 128 before, 64 after"),
        ("reference.weights_bytes", 5, "bytes of the weights: 437964800 before, 5 after"),
        ("reference.digests", {"weights": "5 ab"}, "weights: 4 cd before, 5 ab after"),
        ("reference.digests", {"weights": "4 cd", "code": "2"}, "code of the model: 1 before, 2 after"),
        ("remedy", {"name": "O1", "frontend": "torchmlir-torch"}, "remedy: none before, O1 after"),
    ],
)  # fmt: skip
def test_rows_that_differ_in_more_than_the_toolchain_are_not_compared(
    before, after, path, value, why
):
    cell(before, BERT)["reference"]["digests"] = {"weights": "4 cd", "code": "1"}
    place = cell(after, BERT)
    *above, last = path.split(".")
    for key in above:
        place = place[key]
    place[last] = value
    if path == "remedy":
        place["remedy"]["first"] = {"reason": "x", "detail": "x"}
    found = compared(before, after)
    assert {one.cell: one.why for one in found.not_compared}[BERT] == why
    assert BERT not in {one.cell for one in found.latencies}


def test_sizes_times_memory_and_errors_are_compared_by_thresholds(before, after):
    row = cell(after, BERT)
    row["compile"] |= {"compile_s": 45.0, "vmfb_bytes": 400_000}
    row["verification"]["rmse_vs_fp64"] = 1e-9
    found = compared(before, after)
    assert {(one.key, one.worse) for one in found.amounts} == {
        ("compile_s", True),
        ("vmfb_bytes", True),
        ("rmse_vs_fp64", False),
    }
    assert len(found.alarms) == 2
    calm = compared(before, after, Settings(compile_s=20.0, vmfb_bytes=None))
    assert not calm.alarms


def test_a_small_absolute_difference_is_no_change(before, after):
    cell(before, BERT)["compile"]["compile_s"] = 0.1
    cell(after, BERT)["compile"]["compile_s"] = 0.9
    assert not compared(before, after).amounts


def test_toolchains_of_one_run_are_paired_without_their_names(before):
    newer = [copy.deepcopy(one) for one in before if one["experiment"]["runtime"] == "iree"]
    for one in newer:
        one["experiment"] |= {"toolchain": "next", "target": one["experiment"]["target"] + "@next"}
    newer[0]["experiment"]["frontend"] += "@next"
    found = pairs.of_toolchains([*before, *newer], "pinned", "next")
    assert len(found) == len(newer)
    assert all(one.both for one in found)
    assert BERT in {one.cell for one in found}
    made = compare(found, "pinned", "next", Settings())
    assert [one.cell for one in made.not_compared] == [ONE_ROUND]
    assert not made.outcomes
    with pytest.raises(ValueError, match=r"'old'; the toolchains of the rows are: next, pinned"):
        pairs.of_toolchains([*before, *newer], "pinned", "old")


def test_changed_versions_and_options_are_listed(before, after):
    for one in after:
        if one["versions"].get("iree"):
            one["versions"]["iree"] = "3.14.0"
    cell(after, BERT)["experiment"]["flags"] = ["--a", "--b"]
    version, flags = compared(before, after).versions
    assert (version.name, version.before, version.after) == ("iree", "3.13.0", "3.14.0")
    assert (flags.name, flags.before, flags.after, flags.rows) == ("flags", "none", "--a --b", 1)
    assert BERT in {one.cell for one in compared(before, after).latencies}


def test_cells_of_one_run_only_are_counted_per_path(before, after):
    after = [one for one in after if not str(cell_of(one)).endswith("/eager/eval")]
    gone = len(before) - len(after)
    assert gone > 1
    text = formats.as_text(compared(before, after))
    assert f"{gone} × */eager/eval" in text
    assert "bert/eager/eval" not in text
    assert "bert/eager/eval" in formats.as_text(compared(before, after), with_all=True)


def test_means_are_given_per_path_target_and_suite(before, after):
    found = compared(quiet(before), quiet(after))
    assert {one.by for one in found.means} == {"all", "path", "target", "suite"}
    assert {"torchmlir-torch", "llvm-cpu", "vmfbench", "eager"} <= {one.name for one in found.means}
    assert found.means[0].cells == len(found.latencies)
    assert found.means[0].high - found.means[0].low < 0.03


def test_settings_are_those_of_the_schema():
    schema = schemas.read("config")["properties"]["compare"]["properties"]
    assert tuple(schema) == KEYS
    assert schema["outcomes"]["items"]["enum"] == [
        *("broken", "newly wrong", "fixed", "newly right", "other reason", "device", "gone", "new")
    ]
    assert set(outcomes.KINDS) == set(schema["outcomes"]["items"]["enum"])


@pytest.fixture
def runs(tmp_path, before, after):
    """Write rows as two folders of results."""

    def of(first=before, second=after):
        folders = [tmp_path / name / "results" for name in ("one", "two")]
        for folder, rows in zip(folders, (first, second), strict=True):
            folder.mkdir(parents=True, exist_ok=True)
            text = "".join(json.dumps(one) + "\n" for one in rows)
            (folder / "results.jsonl").write_text(text)
        return list(map(str, folders))

    return of


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["compare", *arguments])
    return command.main()


def test_the_exit_code_is_1_if_something_is_worse(monkeypatch, capsys, runs, before, after):
    assert run(monkeypatch, *runs()) == 0
    assert "no change for the worse" in capsys.readouterr().out
    fail(cell(after, BERT))
    assert run(monkeypatch, *runs()) == 1
    assert "1 changes for the worse" in capsys.readouterr().out
    assert run(monkeypatch, *runs(), "--cell", "resnet/*") == 0


def test_input_that_cannot_be_used_is_not_exit_code_1(monkeypatch, capsys, runs):
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, *runs(), "--cell", "none/*")
    assert stopped.value.code == 2
    assert "no cell matches --cell none/*" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, runs()[0], "--toolchain", "pinned", "next")
    assert stopped.value.code == 2


def test_two_results_of_one_folder_have_one_set_of_modules_to_measure(monkeypatch, capsys, runs):
    one, _ = runs()
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, one, one, "--remeasure")
    assert stopped.value.code == 2
    assert "both runs are of the same folder" in capsys.readouterr().err


def test_thresholds_come_from_the_configuration(monkeypatch, capsys, runs, after, tmp_path):
    fail(cell(after, BERT))
    mine = tmp_path / "mine.yaml"
    mine.write_text("compare: {outcomes: [fixed]}\n")
    assert run(monkeypatch, *runs(), "--configfile", str(mine)) == 0
    mine.write_text("compare: {latency: 0.5}\n")
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, *runs(), "--configfile", str(mine))
    assert stopped.value.code == 2
    assert "compare.latency" in capsys.readouterr().err


def test_all_formats_name_the_broken_cell(monkeypatch, capsys, runs, after, tmp_path):
    fail(cell(after, BERT))
    cell(after, BERT)["outcome"]["detail"] = "100 % of <b>|\nline"
    saved = tmp_path / "comparison.json"
    said = {}
    for name in formats.FORMATS:
        assert run(monkeypatch, *runs(), "--format", name, "--save", str(saved)) == 1
        said[name] = capsys.readouterr().out
        assert BERT in said[name]
    assert json.loads(said["json"]) == json.loads(saved.read_text())
    assert json.loads(said["json"])["alarms"] == [BERT]
    assert "\\<b\\>\\|<br>line" in said["markdown"]
    (error,) = [line for line in said["github"].splitlines() if line.startswith("::error")]
    assert error.startswith(f"::error title={BERT}::broken")
    assert error.endswith("100 %25 of <b>|%0Aline")


def test_it_runs_as_a_command(runs):
    done = subprocess.run(
        [sys.executable, "-m", "scripts.compare", *runs(), "--all"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"latencies compared: 0 slower, 0 faster", done.stdout)


@pytest.fixture
def in_turns(runs, before, tmp_path):
    """A function that writes a run with the toolchain `next`, by default 30 % slower in turns, and returns its folder."""

    def of(newer):
        newer["experiment"] |= {"toolchain": "next", "target": "llvm-cpu@next"}
        (folder, _) = runs([*before, newer])
        path = tmp_path / "one/results/turns" / BERT / "turns.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"sides": ["pinned", "next"], "blocks": BLOCKS}))
        return folder

    return of


BLOCKS = [
    {"turn": turn, "side": side, "started": 0.0, "values_ms": [ms * (1 + turn / 1000)], "others": 0.0}
    for turn in range(8)
    for side, ms in (("pinned", 10.0), ("next", 13.0 + turn / 100))
    ]  # fmt: skip


def test_measurements_in_turns_of_a_run_replace_its_rounds(monkeypatch, capsys, in_turns, before):
    folder = in_turns(copy.deepcopy(cell(before, BERT)))
    assert run(monkeypatch, folder, "--toolchain", "pinned", "next", "--format", "json") == 1
    (change,) = json.loads(capsys.readouterr().out)["latencies"]
    assert (change["verdict"], change["basis"]) == ("slower", "turns")
    assert change["ratio"] == pytest.approx(1.3035, abs=1e-3)
    assert change["after_ms"] == pytest.approx(13.08, abs=0.01)


def test_what_must_not_be_compared_is_not_compared_in_turns_either(
    monkeypatch, capsys, in_turns, before
):
    newer = copy.deepcopy(cell(before, BERT))
    newer["run"]["threads"] = 99
    folder = in_turns(newer)
    run(monkeypatch, folder, "--toolchain", "pinned", "next", "--format", "json")
    found = json.loads(capsys.readouterr().out)
    assert (found["latencies"], [one["cell"] for one in found["not_compared"]]) == ([], [BERT])


def test_turns_of_a_row_that_has_failed_later_are_not_used(monkeypatch, capsys, in_turns, before):
    newer = copy.deepcopy(cell(before, BERT))
    fail(newer, "measure_again", "wrong-result")
    run(monkeypatch, in_turns(newer), "--toolchain", "pinned", "next", "--format", "json")
    assert json.loads(capsys.readouterr().out)["latencies"] == []
