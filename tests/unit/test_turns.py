"""iree/turns.py: blocks of several modules in turns, each a process of the tool."""

from __future__ import annotations

import json
import shlex
import sys

import pytest

from scripts import measure_turns
from scripts.lib.comparison import paired, pairs, remeasuring
from scripts.lib.comparison.latencies import Estimate
from scripts.lib.iree import turns
from scripts.lib.iree.turns import Side, TurnError, TurnRule, Turns
from tests.report_records import records

TOOL = """
import json, sys
options = dict(one.partition("=")[::2] for one in sys.argv[1:])
with open("calls.txt", "a") as out:
    out.write(options["--module"] + chr(10))
if options["--module"] == "bad.vmfb":
    print("no such function", file=sys.stderr)
    raise SystemExit(3)
count = int(options["--benchmark_repetitions"])
rows = [
    {"name": "m", "run_name": "m", "run_type": "iteration", "repetition_index": i, "iterations": 1,
     "time_unit": "ms", "real_time": float(options["--ms"]) + i, "cpu_time": 1.0}
    for i in range(count)
]
json.dump({"benchmarks": rows}, open(options["--benchmark_out"], "w"))
"""


@pytest.fixture
def side(tmp_path):
    """Makes a side whose tool reports a given latency."""
    tool = tmp_path / "tool.py"
    tool.write_text(TOOL)

    def of(name, ms, call_s=0.01):
        line = [sys.executable, str(tool), f"--module={name}.vmfb", f"--ms={ms}", "--benchmark_repetitions=99"]  # fmt: skip
        return Side(name, shlex.join(line), tmp_path, call_s)

    return of


def test_each_module_is_as_often_before_the_other_as_after_it():
    assert [turns.order("ab", turn) for turn in range(4)] == [["a", "b"], ["b", "a"]] * 2 or [
        turns.order("ab", turn) for turn in range(4)
    ] == [["a", "b"], ["b", "a"], ["b", "a"], ["a", "b"]]
    for sides in ("ab", "abc"):
        orders = [turns.order(sides, turn) for turn in range(4 * len(sides))]
        for one in sides:
            for other in sides:
                first = sum(order.index(one) < order.index(other) for order in orders)
                assert one == other or first == len(orders) / 2


def test_blocks_are_timed_in_turns(side, tmp_path):
    found = turns.take([side("a", 10), side("b", 12)], TurnRule(turns=6), threads=1)
    called = (tmp_path / "calls.txt").read_text().split()
    assert [one.side + ".vmfb" for one in found.blocks] == called
    assert len(called) == 12
    assert found.blocks[0].values_ms == (10.0, 11.0, 12.0)
    assert len(paired.log_ratios(found, "a", "b")) == 6


def test_turns_survive_a_file(side, tmp_path):
    found = turns.take([side("a", 10), side("b", 12)], TurnRule(turns=2), threads=1)
    found.write(tmp_path / "turns.json")
    assert Turns.of(json.loads((tmp_path / "turns.json").read_text())) == found


def test_after_the_budget_no_further_turn_begins(side):
    found = turns.take([side("a", 1), side("b", 1)], TurnRule(turns=50, budget_s=0.0), threads=1)
    assert len(found.blocks) == 2 * turns.MIN_TURNS


def test_options_of_the_measurement_are_replaced(side):
    line = turns.arguments(side("a", 1, call_s=0.02), TurnRule(repetition_s=0.05, warmup_s=0.1))
    assert "--benchmark_repetitions=99" not in line
    assert {"--module=a.vmfb", "--benchmark_min_time=3x", "--benchmark_repetitions=3"} <= set(line)
    long = turns.arguments(side("a", 1, call_s=2.0), TurnRule())
    assert {"--benchmark_min_time=1x", "--benchmark_repetitions=1"} <= set(long)


def test_a_tool_that_fails_is_named_with_its_last_lines(side):
    with pytest.raises(
        TurnError, match=r"(?s)bad: exit code 3.*--module=bad.vmfb.*no such function"
    ):
        turns.take([side("a", 1), side("bad", 1)], TurnRule(turns=6), threads=1)


@pytest.fixture
def pair(side, tmp_path):
    """A cell whose modules are there."""
    before, after = (records()[0] for _ in range(2))
    for row, ms, folder in ((before, 10, "one"), (after, 13, "two")):
        (tmp_path / folder).mkdir()
        made = side("m", ms)
        (tmp_path / folder / "m.vmfb").write_bytes(b"x" * row["compile"]["vmfb_bytes"])
        row["run"]["command"] = made.command
    return pairs.of_files([before], [after])[0], (tmp_path / "one", tmp_path / "two")


def test_an_undecided_cell_is_measured_again_with_both_modules(pair):
    found = remeasuring.measure(*pair, TurnRule(turns=6))
    assert isinstance(found, Estimate)
    assert found.basis == "turns"
    assert (found.before_ms, found.after_ms) == (11.0, 14.0)
    assert 0.2 < found.value < 0.3  # log(1.3), with the increments of the repetitions


def test_a_module_that_was_made_again_is_not_measured(pair):
    of, folders = pair
    (folders[0] / "m.vmfb").write_bytes(b"other")
    assert "was made again since" in remeasuring.measure(of, folders, TurnRule(turns=6))
    (folders[0] / "m.vmfb").unlink()
    assert "there is no" in remeasuring.measure(of, folders, TurnRule(turns=6))


def run(monkeypatch, tmp_path, *sides):
    monkeypatch.chdir(tmp_path)
    options = [word for name, file in sides for word in ("--side", name, str(file))]
    monkeypatch.setattr(sys, "argv", ["measure_turns", *options, "--turns", "6", "--threads", "1", "--out", "turns.json"])  # fmt: skip
    measure_turns.main()
    return Turns.of(json.loads((tmp_path / "turns.json").read_text()))


def test_the_stage_leaves_out_toolchains_without_a_latency(side, tmp_path, monkeypatch, capsys):
    files = {}
    for name, ms in (("pinned", 10), ("old", 12)):
        files[name] = tmp_path / f"{name}.json"
        measured = {"command": side(name, ms).command, "latency": {"values_ms": [ms, ms + 1]}}
        files[name].write_text(json.dumps(measured))
    files["failed"] = tmp_path / "failed.json"
    files["failed"].touch()
    assert run(monkeypatch, tmp_path, *files.items()).sides == ("pinned", "old")
    found = run(monkeypatch, tmp_path, ("pinned", files["pinned"]), ("failed", files["failed"]))
    assert found.blocks == ()
    assert "nothing to compare: 1 of 2 toolchains have a latency" in capsys.readouterr().out


def test_a_module_that_fails_does_not_cost_the_others_their_turns(side, tmp_path, monkeypatch, capsys):  # fmt: skip
    files = {}
    for name in ("pinned", "bad", "old"):
        files[name] = tmp_path / f"{name}.json"
        measured = {"command": side(name, 1).command, "latency": {"values_ms": [1.0]}}
        files[name].write_text(json.dumps(measured))
    found = run(monkeypatch, tmp_path, *files.items())
    assert found.sides == ("pinned", "old")
    assert {block.side for block in found.blocks} == {"pinned", "old"}
    assert "left out: bad: exit code 3" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        run(monkeypatch, tmp_path, ("pinned", files["pinned"]), ("bad", files["bad"]))


def test_calls_that_take_too_long_are_not_measured_in_turns(side, tmp_path, monkeypatch, capsys):
    files = {}
    for name in ("pinned", "old"):
        files[name] = tmp_path / f"{name}.json"
        measured = {"command": side(name, 1).command, "latency": {"values_ms": [20_000.0]}}
        files[name].write_text(json.dumps(measured))
    assert run(monkeypatch, tmp_path, *files.items()).blocks == ()
    assert "6 turns would take 480 s, and the budget is 60 s" in capsys.readouterr().out
