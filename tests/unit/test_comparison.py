"""scripts.tools.compare.compare: what has changed between two runs, and what is not compared."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import random
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pydantic import TypeAdapter

from scripts.config import sections
from scripts.core.requests import StageRequest
from scripts.measure.timing.group_timing import GroupTiming, MemberTiming, PartTiming
from scripts.measure.timing.ratios import ALIKE, FASTER, SLOWER, UNDECIDED
from scripts.measure.timing.turns import Rule
from scripts.results import speedups
from scripts.results.results_file import cell_of
from scripts.run.recorded import Recorded
from scripts.tools.compare import compare as command
from scripts.tools.compare import formats, pairs, remeasuring
from scripts.tools.compare.code_changes import CodeChange, DispatchChange
from scripts.tools.compare.comparing import SAME_PROGRAM, Settings, compare
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
FEW = "resnet/torchmlir-stablehlo/vulkan"
"""A row of a single generation, which has no interval."""


def fail(row, stage="compile", reason="bufferization", status="error"):
    ended = {"status": status, "stage": stage, "reason": reason, "detail": "what went wrong"}
    row["outcome"] |= ended
    row["verification"] = {"code": "VERIFIER_DIDNT_RUN"}
    row["latency"] = row["runs"] = None


def made_wrong(row):
    fail(row, "verify", "wrong-result")
    row["verification"] = {"code": "FAIL"}


def compared(before, after, settings=None):
    return compare(pairs.of_files(before, after), "before", "after", settings or Settings())


def pair_of_bert(before, after):
    return pairs.Pair(BERT, cell(before, BERT), cell(after, BERT))


def verdicts(found):
    return {one.cell: one.verdict for one in found.latencies}


def kinds(found):
    return {one.cell: one.kind for one in found.outcomes}


def test_a_run_compared_with_itself_has_no_alarm(before):
    found = compared(before, before)
    assert (found.cells, found.unchanged) == (len(before), len(before))
    assert (found.outcomes, found.amounts, found.versions, found.alarms) == ((), (), (), [])
    assert not found.not_compared
    assert len(found.latencies) == sum(bool(one["latency"]) for one in before)
    assert {(one.low, one.high, one.verdict) for one in found.latencies} == {(1.0, 1.0, ALIKE)}
    assert {(one.low, one.high) for one in found.means} == {(1.0, 1.0)}


def test_changes_of_outcomes_are_named_and_only_those_for_the_worse_are_alarms(before, after):
    ok = [name for one in before if one["latency"] and (name := str(cell_of(one)))][:7]
    broken, fixed, wrong, right, other, by_remedy, device = ok
    fail(cell(after, broken))
    fail(cell(before, fixed))
    made_wrong(cell(after, wrong))
    made_wrong(cell(before, right))
    fail(cell(before, other), reason="bufferization")
    fail(cell(after, other), reason="shared-memory-limit")
    fail(cell(after, device), "verify", "no-device", "unavailable")
    row = remedied(cell(after, by_remedy), "O1", "torchmlir-torch")
    row["remedy"]["first"] |= {"reason": "stack-limit", "detail": "too large a stack"}
    after[after.index(cell(after, by_remedy))] = row
    gone = str(cell_of(after.pop()))
    found = compared(before, after)
    assert kinds(found) == {
        broken: pairs.BROKEN,
        fixed: pairs.FIXED,
        wrong: pairs.NEWLY_WRONG,
        right: pairs.NEWLY_RIGHT,
        other: pairs.OTHER_REASON,
        by_remedy: pairs.BROKEN,
        device: pairs.DEVICE,
        gone: pairs.GONE,
    }
    assert {one.cell for one in found.alarms} == {broken, wrong, by_remedy}
    changes = {one.cell: one for one in found.outcomes}
    assert (changes[broken].before, changes[broken].after) == ("ok", "compile: bufferization")
    assert changes[by_remedy].after == "compile: stack-limit (compiled by remedy)"
    assert changes[by_remedy].detail == "too large a stack"
    assert kinds(compared(after, before))[gone] == pairs.NEW


def quiet(rows, run, factors=(), machine=1.0, anchor="eager/eval, PyTorch 2.15.0"):
    """Give all rows latencies of another run: 100 ms times a factor, by cell, and that of the machine, with little noise. Those of a
    model are timed in turns with one anchor of 80 ms."""
    draw = random.Random(run)

    def noisy(ms):
        return [ms * machine * math.exp(draw.gauss(0, 0.003)) for _ in range(8)]

    anchors = {}
    for one in rows:
        if latency := one["latency"]:
            group = f"{one['model']['name']} {run}"
            anchor_ms = anchors.setdefault(group, noisy(80.0))
            values = noisy(100 * dict(factors).get(str(cell_of(one)), 1.0))
            if one["experiment"]["runtime"] == "eager":
                values = anchor_ms
            latency |= {"values_ms": values, "ms": values[0], "generations": 8, "group": group}
            latency |= {"anchor": anchor, "anchor_ms": anchor_ms}
    return rows


def timed(rows):
    """The cells with a latency that are no anchors."""
    found = [one for one in rows if one["latency"] and one["experiment"]["runtime"] != "eager"]
    return [str(cell_of(one)) for one in found]


def test_a_slower_and_a_faster_cell_are_found_among_equal_ones(before, after):
    names = timed(before)
    quiet(before, 1), quiet(after, 2, [(names[0], 1.3), (names[1], 0.7)])
    found = compared(before, after)
    judged = verdicts(found)
    assert [*judged] == names
    assert (judged.pop(names[0]), judged.pop(names[1])) == (SLOWER, FASTER)
    assert not {SLOWER, FASTER} & set(judged.values())
    assert [one.cell for one in found.alarms] == [names[0]]
    for threshold in (1.5, None):
        found = compared(before, after, Settings(latency=threshold))
        assert (verdicts(found)[names[0]], found.alarms) == (SLOWER, [])


def test_two_runs_are_compared_by_their_anchor_whatever_the_speed_of_the_machine(before, after):
    found = compared(quiet(before, 1), quiet(after, 2, machine=1.4))
    assert {one.verdict for one in found.latencies} == {ALIKE}
    assert {one.basis for one in found.latencies} == {pairs.ANCHOR}
    for name, one in ((one.cell, one) for one in found.latencies):
        rows = [cell(rows, name)["latency"] for rows in (before, after)]
        assert one.after_ms / one.before_ms == pytest.approx(1.4, rel=0.05)
        assert one.ratio == pytest.approx(math.exp(speedups.difference(*rows[::-1]).value))
    names = map(str, map(cell_of, before))
    anchors = [name for name in names if name.endswith("/eager/eval")]
    assert [one.cell for one in found.not_compared] == anchors
    assert {one.why for one in found.not_compared} == {pairs.IS_ANCHOR}
    assert "4 × */eager/eval" in formats.as_text(found)


def test_runs_with_different_anchors_are_not_compared_but_can_be_timed_again(before, after):
    found = compared(quiet(before, 1), quiet(after, 2, anchor="eager/eval, PyTorch 2.16.0"))
    assert not found.latencies
    [why] = {one.why for one in found.not_compared}
    assert why == "anchor: eager/eval, PyTorch 2.15.0 before, eager/eval, PyTorch 2.16.0 after"
    assert all(one.is_measurable for one in found.not_compared)
    found = compared(before, quiet(after, 2, anchor=None))
    assert found.not_compared[0].why == "anchor: eager/eval, PyTorch 2.15.0 before, none after"


def test_a_latency_of_few_generations_is_compared_with_itself_alone(before, after):
    assert FEW in {one.cell for one in compared(before, after).latencies}
    cell(after, FEW)["latency"]["values_ms"] = [1.0]
    [one] = compared(before, after).not_compared
    assert (one.cell, one.why) == (FEW, "1 generations before, 1 after; an interval needs 5")


def test_a_mean_counts_the_error_of_an_anchor_once(before, after):
    """All rows of a model lose 10 % by the anchor of its group, which their errors have in common."""
    quiet(before, 1), quiet(after, 2)
    draw = random.Random(3)
    noise = [math.exp(draw.gauss(0, 0.1)) for _ in range(8)]
    rows = [one for one in after if one["latency"] and one["model"]["name"] == "bert"]
    for one in rows:
        latency = one["latency"]
        latency["anchor_ms"] = [ms * of for ms, of in zip(latency["anchor_ms"], noise, strict=True)]
    names = {str(cell_of(one)) for one in rows} & {*timed(after)}
    chosen = [one for one in pairs.of_files(before, after) if one.cell in names]
    found = compare(chosen, "", "", Settings())
    widths = [math.log(one.high / one.low) for one in found.latencies]
    mean = next(one for one in found.means if one.by == "all")
    assert math.log(mean.high / mean.low) == pytest.approx(sum(widths) / len(widths), rel=0.3)


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
        place["remedy"]["first"] = {"status": "error", "reason": "x", "detail": "x"}
    found = compared(before, after)
    assert {one.cell: one.why for one in found.not_compared}[BERT] == why
    assert BERT not in {one.cell for one in found.latencies}


@pytest.mark.parametrize(
    ("path", "was", "now", "worse"),
    [
        ("compile.cpu_s", 10.0, 45.0, True),
        ("compile.cpu_s", 0.1, 0.9, None),  # a small difference
        ("compile.vmfb_bytes", 138_868, 400_000, True),
        ("verification.rmse_vs_fp64", 1e-5, 1e-9, False),
        ("latency.leaked_bytes", 0, 5000, True),
    ],
)
def test_sizes_times_leaks_and_errors_are_compared_by_thresholds(
    before, after, path, was, now, worse
):
    section, key = path.split(".")
    cell(before, BERT)[section][key], cell(after, BERT)[section][key] = was, now
    found = compared(before, after)
    if worse is None:
        assert not found.amounts
        return
    [change] = found.amounts
    assert (change.before, change.after, change.worse) == (was, now, worse)
    assert len(found.alarms) == worse
    assert not compared(before, after, Settings(**{change.key: None})).amounts


def test_toolchains_of_one_run_are_paired_without_their_names(before):
    newer = [copy.deepcopy(one) for one in before if one["experiment"]["runtime"] == "iree"]
    for one in newer:
        one["experiment"] |= {"toolchain": "next", "target": one["experiment"]["target"] + "@next"}
    newer[0]["experiment"]["frontend"] += "@next"
    elsewhere = copy.deepcopy(cell(before, BERT))
    elsewhere["experiment"] |= {"target": elsewhere["experiment"]["target"] + "@laptop", "imported": "laptop"}  # fmt: skip
    found = pairs.of_toolchains([*before, *newer, elsewhere], "pinned", "next")
    assert len(found) == len(newer)
    assert cell(before, BERT) in [one.before for one in found]
    assert all(one.both for one in found)
    assert BERT in {one.cell for one in found}
    for number, one in enumerate(newer):
        if (latency := one["latency"]) and str(cell_of(one)) != FEW:
            factor = 1.3 if number == 0 else 1.001
            latency["values_ms"] = [ms * factor for ms in latency["values_ms"]]
    made = compare(found, "pinned", "next", Settings())
    assert {one.basis for one in made.latencies} == {pairs.TURNS}
    assert {one.cell for one in made.latencies if one.verdict == SLOWER} >= {BERT}
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
    found = compared(quiet(before, 1), quiet(after, 2))
    assert {one.by for one in found.means} == {"all", "path", "target", "suite"}
    assert {"torchmlir-torch", "llvm-cpu", "vmfbench", "inductor"} <= {
        one.name for one in found.means
    }
    assert found.means[0].cells == len(found.latencies)
    assert found.means[0].high - found.means[0].low < 0.03


def test_settings_are_those_of_the_schema():
    schema = TypeAdapter(sections.Compare).json_schema()["properties"]
    assert list(schema) == [one.name for one in dataclasses.fields(Settings)]
    assert set(pairs.KINDS) == set(schema["outcomes"]["items"]["enum"])


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


def test_the_exit_code_is_1_if_something_is_worse_by_the_thresholds(
    monkeypatch, capsys, runs, after, tmp_path
):
    assert run(monkeypatch, *runs()) == 0
    assert "no change for the worse" in capsys.readouterr().out
    fail(cell(after, BERT))
    assert run(monkeypatch, *runs()) == 1
    assert "changes for the worse: 1" in capsys.readouterr().out
    assert run(monkeypatch, *runs(), "--cell", "resnet/*") == 0
    (tmp_path / "mine.yaml").write_text("compare: {outcomes: [fixed]}\n")
    assert run(monkeypatch, *runs(), "--configfile", str(tmp_path / "mine.yaml")) == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["{one}", "{two}", "--cell", "none/*"], "no cell matches --cell none/*"),
        (["{one}", "--toolchain", "pinned", "next"], "no row has the toolchain 'next'"),
        (["{one}", "{one}", "--remeasure"], "both runs are of the same folder"),
        (["{one}", "{two}", "--configfile", "{one}/wrong.yaml"], "compare.latency"),
        (["{one}", "{two}", "--format", "x"], "'x' is not a format or FORMAT=FILE; formats: text, markdown, comment, json"),
        (["{one}", "{two}", "--format", "text=a", "--format", "nope=b"], "is not a format"),
    ],
)  # fmt: skip
def test_input_that_cannot_be_used_is_exit_code_2(monkeypatch, capsys, runs, words, problem):
    one, two = runs()
    Path(one, "wrong.yaml").write_text("compare: {latency: 0.5}\n")
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, *(word.format(one=one, two=two) for word in words))
    assert stopped.value.code == 2
    assert problem in capsys.readouterr().err


def test_all_formats_name_the_broken_cell(monkeypatch, capsys, runs, after, tmp_path):
    fail(cell(after, BERT))
    cell(after, BERT)["outcome"]["detail"] = "100 % of <b>|\nline"
    saved = tmp_path / "comparison.json"
    said = {}
    for name in formats.FORMATS:
        more = ("--format", f"json={saved}")
        assert run(monkeypatch, *runs(), "--format", name, *more) == 1
        said[name] = capsys.readouterr().out
        assert BERT in said[name]
    assert json.loads(said["json"]) == json.loads(saved.read_text())
    assert json.loads(said["json"])["alarms"] == [BERT]
    assert "\\<b\\>\\|<br>line" in said["markdown"]
    (error,) = [line for line in said["github"].splitlines() if line.startswith("::error")]
    assert error.startswith(f"::error title={BERT}::broken")
    assert error.endswith("100 %25 of <b>|%0Aline")


def test_a_junit_test_fails_for_a_change_for_the_worse_and_not_for_what_is_undecided(before, after):
    fail(cell(after, BERT))
    cell(after, BERT)["outcome"]["detail"] = "\x1b[31mred\x1b[0m \x00 & <b>"
    for row in after:
        if row["latency"]:
            row["latency"]["group"] = "later"
    found = compared(before, after)
    (suite,) = ElementTree.fromstring(formats.as_junit(found))
    tests = {test.get("name"): test for test in suite}
    assert set(tests) == {str(cell_of(row)) for row in before}
    assert [name for name, test in tests.items() if test.find("failure") is not None] == [BERT]
    assert "red  & <b>" in tests[BERT].find("failure").text
    assert suite.get("failures") == "1"
    undecided = [change.cell for change in found.latencies if change.verdict == UNDECIDED]
    assert "latency undecided" in tests[undecided[0]].find("system-out").text


def test_a_changed_model_is_compared_in_turns_alone_and_its_amounts_are(before, after):
    for rows, code in ((before, "a"), (after, "b")):
        cell(rows, BERT)["reference"]["digests"] = {"code": code, "weights": code}
    for rows, count in ((before, 50), (after, 500)):
        cell(rows, BERT)["compile"]["dispatch_count"] = count
    found = compared(before, after)
    (line,) = [each for each in found.not_compared if each.cell == BERT]
    assert line.is_measurable
    assert line.why == "weights: a before, b after"
    assert ("dispatch_count", BERT) in {(each.key, each.cell) for each in found.amounts}
    assert ("code of the model", "a", "b") in {(v.name, v.before, v.after) for v in found.versions}
    pair = pair_of_bert(before, after)
    again = pairs.in_turns(pair, "again", (10.0,) * 5, (13.0, 13.1, 13.0, 13.0, 13.0))
    found = compare([pair], "before", "after", Settings(), {BERT: again})
    assert [change.verdict for change in found.latencies] == [SLOWER]
    cell(after, BERT)["experiment"]["batch_size"] = 64
    found = compare([pair], "before", "after", Settings(), {BERT: again})
    assert [each.is_measurable for each in found.not_compared] == [False]


def test_the_same_program_has_no_latency_to_compare(before, after):
    slower = cell(after, BERT)["latency"]
    slower["values_ms"] = [2 * ms for ms in slower["values_ms"]]
    pair = pair_of_bert(before, after)
    code = CodeChange(BERT, functions=3)
    found = compare([pair], "before", "after", Settings(), codes=[code])
    assert (found.latencies, found.measurable, found.alarms) == ((), [], [])
    assert [(each.cell, each.why) for each in found.not_compared] == [(BERT, SAME_PROGRAM)]
    assert "same code" in formats.as_junit(found)
    pair.after["versions"]["iree"] = "9.9"
    found = compare([pair], "before", "after", Settings(), codes=[code])
    assert [change.cell for change in found.latencies] == [BERT]


def test_the_same_compilation_has_no_time_to_compare(before, after):
    for rows, seconds in ((before, 1.0), (after, 10.0)):
        cell(rows, BERT)["compile"]["cpu_s"] = seconds
    pair = pair_of_bert(before, after)

    def alarms() -> list[str]:
        codes = [CodeChange(BERT, functions=3)]
        return [each.key for each in compare([pair], "a", "b", Settings(), codes=codes).alarms]

    assert alarms() == []
    for section, key, value in (("experiment", "opt_level", "O2"), ("versions", "iree", "9.9")):
        was, pair.after[section][key] = pair.after[section][key], value
        assert alarms() == ["compile_cpu_s"]
        pair.after[section][key] = was


@pytest.fixture
def recompiled(monkeypatch, runs, before, after):
    """Both runs with recorded compilations, which take seconds by folder: `seconds`."""
    folders = [Path(path).parent for path in runs()]
    seconds = dict(zip(folders, (2.0, 2.6), strict=True))
    for folder, rows in zip(folders, (before, after), strict=True):
        cell(rows, BERT)["compile"] |= {"cpu_s": 5.0, "compile_s": 4.0, "vmfb_bytes": 4}
        fields = {"program": "p.mlir", "flags": []}
        compiled = StageRequest("scripts.stages.compile_iree", "venv/python", fields)
        compiled.write(folder / "results/compile" / BERT)
    runs()
    commands = []

    def compile_again(stage, module, fields, out, log):
        commands.append((stage.root, module, fields))
        report = {"cpu_s": seconds[stage.root] * (1 + len(commands) % 3 / 100), "vmfb_bytes": 4}
        (out / "report.json").write_text(json.dumps(report))
        return 0

    monkeypatch.setattr(Recorded, "run", compile_again)
    return folders, seconds, commands


def test_programs_are_compiled_again_in_turns(monkeypatch, capsys, recompiled):
    folders, _, commands = recompiled
    results = [str(folder / "results") for folder in folders]
    words = [*results, "--cell", BERT, "--format", "json", "--recompile"]
    assert run(monkeypatch, *words) == 1
    [change] = json.loads(capsys.readouterr().out)["compile_times"]
    assert (change["cell"], change["verdict"]) == (BERT, SLOWER)
    assert change["ratio"] == pytest.approx(1.3, rel=0.02)
    assert [folder for folder, *_ in commands].count(folders[0]) == len(commands) / 2 == 5
    # Each round has both, in random order.
    orders = {(one[0], other[0]) for one, other in zip(commands[::2], commands[1::2], strict=True)}
    assert orders == {tuple(folders), tuple(reversed(folders))}
    [module] = {command[1] for command in commands}
    assert module == "scripts.stages.compile_iree"
    assert commands[0][2] == {"program": "p.mlir", "flags": []}
    (lenient := folders[0] / "lenient.yaml").write_text("compare: {compile_time: 2}")
    assert run(monkeypatch, *words, "--configfile", str(lenient)) == 0


def test_a_compile_time_that_changed_is_confirmed_in_turns(
    monkeypatch, capsys, recompiled, after, before
):
    folders, seconds, commands = recompiled
    pair = pair_of_bert(before, after)
    pair.after["compile"]["cpu_s"] = 50.0
    assert compare([pair], "a", "b", Settings()).recompilable == [BERT]
    seconds[folders[1]] = seconds[folders[0]]
    again = remeasuring.compile_again(pair, tuple(folders), 6)
    changed = compare([pair], "a", "b", Settings(), recompiled={BERT: again})
    assert (changed.alarms, [each.verdict for each in changed.compile_times]) == ([], [ALIKE])
    assert len(commands) == 12


def test_a_program_that_is_not_the_rows_is_not_compared(recompiled, before, after):
    folders, *_ = recompiled
    pair = pair_of_bert(before, after)
    pair.after["compile"]["vmfb_bytes"] = pair.before["compile"]["vmfb_bytes"] = 5
    with pytest.raises(remeasuring.NotMeasured, match="it compiles to 4 bytes, and its row says 5"):
        remeasuring.compile_again(pair, tuple(folders), 3)
    assert remeasuring.compile_rounds(pair, 20.0) == 5
    assert remeasuring.compile_rounds(pair, 80.0) == 10
    assert remeasuring.compile_rounds(pair, 1e6) == 96


def test_a_slower_cell_is_explained_by_its_dispatches(before, after):
    quiet(before, 1), quiet(after, 2)
    slower = cell(after, BERT)["latency"]
    slower["values_ms"] = [2 * ms for ms in slower["values_ms"]]
    pair = pair_of_bert(before, after)
    change = DispatchChange("changed", "dispatch_7_matmul", (10, 20), ms=(1.0, 3.0), modules=("layer.3.mlp",))  # fmt: skip
    code = CodeChange(BERT, functions=3, changed=(change,), before_ms=10.0)
    found = compare([pair], "before", "after", Settings(), codes=[code])
    assert [change.cell for change in found.alarms] == [BERT]
    named = "dispatches: dispatch_7_matmul (layer.3.mlp) changed +20.0%"
    for name, form in formats.FORMATS.items():
        assert name == "json" or named in form(found, False)


def timing(before, after, control=1.0, ended=()):
    """Five generations of two modules."""
    spread = (1.0, 1.001, 0.999, 1.0, 1.0)
    values = {"before": [before * share for share in spread], "after": [after] * 5}
    members = {name: MemberTiming(values_ms=tuple(row)) for name, row in values.items()}
    members |= {name: MemberTiming("crashed", "SIGSEGV", "it died") for name in ended}
    twice = tuple(spread), tuple(control * one for one in spread[::-1])
    return GroupTiming(0.0, "{}", "", members, (PartTiming(5, tuple(range(5)), "before", twice),))


def verified(folder, command):
    """Write what the verification of BERT has left in a folder."""
    place = folder / "results/verify" / BERT
    flags = [word for word in command.split() if word.startswith("--")]
    StageRequest("scripts.stages.verify_iree", "venv/python", {}).write(place)
    measured = {"command": command, "flags": flags, "python": "/x/python"}
    (place / "verification.json").write_text(json.dumps(measured))


def test_undecided_cells_are_timed_again_in_turns(monkeypatch, capsys, runs, before, after):
    """Only cells that this may decide; the processes are those of both runs, in their folders."""
    asked = []

    def take(members, rule):
        asked.append(members)
        return timing(10.0, 13.0)

    monkeypatch.setattr(remeasuring, "time_in_turns", take)
    quiet(before, 1), quiet(after, 2, anchor="another")
    command = "tools/iree-benchmark-module --module=m.vmfb --x"
    folders = [Path(one).parent for one in runs()]
    for rows, folder in zip((before, after), folders, strict=True):
        cell(rows, BERT)["run"]["command"] = command
        cell(rows, BERT)["compile"]["vmfb_bytes"] = 4
        verified(folder, command)
        (folder / "m.vmfb").write_text("1234")
    words = [*runs(), "--cell", "bert/*", "--format", "json"]
    assert run(monkeypatch, *words, "--remeasure") == 1
    said = capsys.readouterr()
    found = json.loads(said.out)
    [change] = found["latencies"]
    assert (change["cell"], change["verdict"], change["basis"]) == (BERT, SLOWER, pairs.TURNS)
    assert change["ratio"] == pytest.approx(1.3)
    [members] = asked
    assert [one.folder for one in members] == folders
    assert {one.command for one in members} == {("venv/python", "-m", "scripts.stages.time_module", "--module=m.vmfb", "--x")}  # fmt: skip
    assert "bert/inductor/eval\n    not measured again: before: " in said.err
    assert BERT not in {one["cell"] for one in found["not_compared"]}


def test_a_module_that_was_made_again_is_not_timed(before, tmp_path):
    row = cell(before, BERT)
    row["run"]["command"] = "tool --module=m.vmfb"
    pair = pairs.Pair(BERT, row, row)

    def why() -> str:
        with pytest.raises(remeasuring.NotMeasured) as stopped:
            remeasuring.time_again(pair, (tmp_path, tmp_path), Rule())
        return str(stopped.value)

    assert "cannot be read" in why()
    verified(tmp_path, "tool --module=other.vmfb")
    assert why().endswith("was made again since its row was written")
    verified(tmp_path, "tool --module=m.vmfb")
    assert "there is no" in why()
    (tmp_path / "m.vmfb").write_text("x")
    assert "has 1 bytes, and its row says 138868" in why()


def test_turns_that_say_nothing_are_no_change():
    pair = pairs.Pair("x", None, None)
    measured = timing(10.0, 12.0)
    found = remeasuring.estimate_of_timing(pair, measured)
    assert found.difference.value == pytest.approx(math.log(1.2), abs=1e-5)
    assert [part.noise for part in found.terms] == [measured.noise(0)]
    assert measured.noise(0)
    noisy = r"two processes of before differ by a factor of 0\.909: the machine was too noisy"
    for wrong, problem in (
        (timing(10.0, 12.0, ended=["after"]), r"after: crashed \(SIGSEGV\): it died"),
        (timing(10.0, 12.0, control=1.1), noisy),
    ):
        with pytest.raises(remeasuring.NotMeasured, match=problem):
            remeasuring.estimate_of_timing(pair, wrong)


def test_another_python_counts_where_both_records_have_one():
    assert pairs.changed({"python": "3.11.7", "torch": "2"}, {"torch": "2"}) == []
    assert pairs.changed({"python": "3.11.7"}, {"python": "3.13.0"}) == [
        ("python", "3.11.7", "3.13.0")
    ]
    assert pairs.changed({"torch": "2"}, {}) == [("torch", "2", None)]
