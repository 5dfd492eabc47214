"""scripts.tools.profile.why: which modules a dispatch belongs to, which modules are shown as one, and what is said about them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from pathlib import Path

import pytest

from scripts.config.stages import status_path
from scripts.measure.timing.machine_limits import PRODUCT, TRIAD, MachineLimits, Sample
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome, Usage
from scripts.tools.profile import rounds
from scripts.tools.profile import why as verb
from scripts.tools.profile.account import patterns, shares

CELL = "tiny/mlir/llvm-cpu"


def test_a_dispatch_belongs_to_the_modules_of_its_products_else_to_that_of_its_root():
    fused = [["mm", "aten.mm.default", "a"], ["add", "aten.add.Tensor", "b"]]
    assert shares(fused) == {"a": 1.0}
    assert shares([*fused[1:], ["n", "aten.mul.Tensor", None]]) == {"b": 1.0}
    assert shares([*fused, ["bmm", "aten.bmm.default", None]]) == {"a": 0.5, None: 0.5}
    assert shares([]) == {None: 1.0}


def test_repeated_layers_are_shown_as_one_and_other_modules_are_not():
    kinds = {
        "": "Net",
        **{f"layers.{i}": "Block" for i in range(3)},
        **{f"layers.{i}.fc": "Linear" for i in range(3)},
        "layers.2.extra": "Linear",  # another kind of layer
        **{f"mlp.{i}": "Linear" for i in (0, 2)},
        **{f"conv{i}.lin": "Linear" for i in (1, 2)},
        "conv1": "SAGEConv",
        "conv2": "GATConv",
    }
    shown = patterns(kinds, kinds)
    assert shown["layers.0.fc"] == shown["layers.1.fc"] == "layers.*.fc"
    assert shown["layers.2.fc"] == "layers.2.fc"
    assert [shown[path] for path in ("mlp.0", "conv1.lin", "")] == ["mlp.0", "conv1.lin", ""]


def dispatch(function: str, ms: float, tiles: int, *nodes: list) -> dict:
    return {"function": function, "ms": ms, "tiles": tiles, "busy": 1.0, "nodes": list(nodes)}


IREE = {
    "runtime": "iree",
    "threads": 2,
    "calls": 3,
    **{"call_ms": 11.0, "profiled_ms": 11.0, "control_ms": [11.0, 11.5], "foreign": 0.01, "load": 1.8},
    "kinds": {"": "Net", "fc": "Linear", "pool": "Pool"},
    "dispatches": [
        dispatch("d_0_matmul", 2.0, 8, ["mm", "aten.mm.default", "fc"], ["add", "aten.add.Tensor", "fc"]),
        dispatch("d_1_scatter", 8.0, 1, ["scatter_add", "aten.scatter_add.default", "pool"]),
        dispatch("_encoding_0", 0.01, 8),
    ],
}  # fmt: skip
EAGER = {
    "runtime": "eager",
    "threads": 2,
    "calls": 3,
    **{"call_ms": 4.5, "profiled_ms": 4.5, "control_ms": [4.6, 4.5], "foreign": 0.0, "load": 1.2},
    "modules": [
        {"module": "pool", "kind": "Pool", "ms": 1.5},
        {"module": "fc", "kind": "Linear", "ms": 2.5},
        {"module": "", "kind": "Net", "ms": 0.5},
    ],
    "work": {
        **{"flop": 40_000_000, "weight_bytes": 1000, "input_bytes": 2000, "output_bytes": 3000},
        "no_formula": {"aten.scatter_add.default": 1},
        "modules": {"fc": {"flop": 40_000_000, "bytes": 1000}, "": {"flop": 0, "bytes": 5000}},
    },
}
LIMITS = MachineLimits(
    "cpu", "a CPU", 2, 0.0,
    (
        Sample(TRIAD, "torch", "f32", 20_000_000_000, (1.0,)),
        Sample(PRODUCT, "torch", "f32", 1000, (0.02,)),
    ),
)  # fmt: skip


@pytest.fixture
def results(tmp_path) -> Path:
    """The results folder of a run with the profiles of one cell."""
    folder = tmp_path / "results"
    for of, content in (("tiny/iree/mlir/llvm-cpu", IREE), ("tiny/eager/eval", EAGER)):
        path = folder / "profile" / of / "profile.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(content))
    limits = folder / "machine_limits/cpu/limits.json"
    limits.parent.mkdir(parents=True)
    LIMITS.write(limits)
    return folder


@pytest.fixture
def why(results, monkeypatch, capsys):
    """What `vmfbench why` prints about a cell, and its error."""

    def call(*options: str, cell: str = CELL) -> str:
        monkeypatch.setattr(sys, "argv", ["why", cell, "--results", str(results), *options])
        with contextlib.suppress(SystemExit):
            verb.main()
        return "".join(capsys.readouterr())

    return call


def test_modules_and_dispatches_are_shown_beside_eager_and_the_limit(why):
    said = """\
tiny/mlir/llvm-cpu: ms per call: IREE 11.0, eager 4.50, limit 0.400; 2 threads
control, the same calls where they were profiled: IREE 11.0 to 11.5, eager 4.50 to 4.60; load 1.8

module              class   ×  eager ms  IREE ms  limit ms
pool                Pool    1      1.50     8.00         –
fc                  Linear  1      2.50     2.00     0.400
(the model itself)  Net     1     0.500        –  0.000250
(all others)                1         –   0.0100         –
all                         4      4.50     10.0     0.400

share    ms  calls  workgroups  busy  dispatch     operators    modules
  80%  8.00      1           1   1.0  d_1_scatter  scatter_add  pool
  20%  2.00      1           8   1.0  d_0_matmul   mm, add      fc

Look first at
1. pool (Pool, 1 ×): 8.00 ms, 6.50 ms more than eager. d_1_scatter: 8.00 ms in 1 call (1 workgroup for 2 threads; no product: scatter_add).
"""
    assert why() == said


def test_json_has_every_module_and_dispatch(why):
    found = json.loads(why("--json"))
    assert [one["name"] for one in found["parts"]] == ["pool", "fc", "(no module)", "(the model itself)"]  # fmt: skip
    assert [one["function"] for one in found["kernels"]] == ["d_1_scatter", "d_0_matmul", "_encoding_0"]  # fmt: skip
    assert found["first"][0].startswith("pool (Pool, 1 ×)")


def test_without_other_profiles_iree_alone_is_shown(results, why):
    (results / "profile/tiny/eager/eval/profile.json").write_text("")
    (results / "machine_limits/cpu/limits.json").unlink()
    lines = why().splitlines()
    assert lines[0] == "tiny/mlir/llvm-cpu: ms per call: IREE 11.0; 2 threads"
    assert lines[3].split() == ["module", "class", "×", "IREE", "ms"]


def test_without_a_profile_the_command_or_the_failure_is_named(results, why):
    missing = why(cell="other/mlir/llvm-cpu")
    assert "vmfbench run --make profile --config models=other frontends=mlir" in missing
    one = Outcome("error", "profile", "other/iree/mlir/llvm-cpu", "exit-1", "it broke", log="l")
    path = results.parent / status_path("profile", "other/iree/mlir/llvm-cpu")
    outcome.write(path, one, Usage(0, 0))
    assert "failed: error (exit-1): it broke" in why(cell="other/mlir/llvm-cpu")


def test_limits_with_another_number_of_threads_are_not_shown(results, why):
    dataclasses.replace(LIMITS, threads=1).write(results / "machine_limits/cpu/limits.json")
    head = why().splitlines()[0]
    assert head == "tiny/mlir/llvm-cpu: ms per call: IREE 11.0, eager 4.50; 2 threads"


def timed(results: Path, own: list[float], eager: list[float]) -> None:
    """Write the timing of the group."""
    path = results / "time/tiny/cpu/eval/timing.json"
    path.parent.mkdir(parents=True)
    members = {CELL: {"values_ms": own}, "tiny/eager/eval": {"values_ms": eager}}
    path.write_text(json.dumps({"members": members}))


def changed(results: Path, of: str, **values: object) -> None:
    """Change a profile."""
    path = results / "profile" / of / "profile.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_times_are_scaled_to_the_rows_which_were_timed_in_turns(results, why):
    """The machine was slower while IREE was profiled: its row says that it is as fast as eager."""
    timed(results, [8.0, 8.1, 8.0, 7.9, 8.0], [4.0, 4.0, 4.1, 3.9, 4.0])
    changed(results, "tiny/iree/mlir/llvm-cpu", profiled_ms=16.0, call_ms=11.0)
    changed(results, "tiny/eager/eval", profiled_ms=8.0)
    lines = why().splitlines()
    assert "IREE 8.00, eager 4.00" in lines[0]
    pool = next(line for line in lines if line.startswith("pool"))
    assert pool.split()[3:5] == ["0.750", "4.00"]
    assert "3.25 ms more than eager" in lines[-1]


@pytest.mark.parametrize(
    ("of", "values", "said"),
    [
        ("tiny/eager/eval", {"call_ms": 1283.0, "control_ms": [1283.0]}, "eager took 1,283 ms where it was profiled, and 4.00 ms in its row"),
        ("tiny/iree/mlir/llvm-cpu", {"control_ms": [11.0, 1136.0]}, "the same calls of IREE took 11.0 to 1,136 ms while it was profiled"),
        ("tiny/iree/mlir/llvm-cpu", {"foreign": 0.93}, "other processes used 93% of the cores while IREE was profiled"),
    ],
)  # fmt: skip
def test_where_profiles_are_in_doubt_nothing_is_recommended(results, why, of, values, said):
    timed(results, [8.0, 8.1, 8.0, 7.9, 8.0], [4.0, 4.0, 4.1, 3.9, 4.0])
    changed(results, of, **values)
    lines = why().splitlines()
    assert lines[0] == f"In doubt, so nothing is recommended: {said}"
    assert lines[1].startswith("tiny/mlir/llvm-cpu: ms per call: IREE 8.00, eager 4.00")
    assert "Look first at" not in lines
    found = json.loads(why("--json"))
    assert (found["first"], found["doubts"]) == ([], [said])


def test_rows_that_do_not_say_how_they_compare_are_a_doubt(results, why):
    timed(results, [10.0, 9.0], [4.0, 4.1])
    said = "the rows of IREE and eager do not say how they compare: 2 generations and 2 generations"
    assert why().splitlines()[0].endswith(f": {said}")


def test_a_profile_without_a_control_is_a_doubt(results, why):
    old = {key: value for key, value in EAGER.items() if key != "control_ms"}
    (results / "profile/tiny/eager/eval/profile.json").write_text(json.dumps(old))
    assert "the profile of eager is of an older version, without a control" in why()


def test_a_profile_is_of_the_round_that_was_disturbed_least():
    plain, taken = iter([5.0, 5.1, 9.0, 5.2, 5.0]), iter([("a", 8.0), ("b", 6.0), ("c", 30.0), ("d", 7.0)])  # fmt: skip
    profile, measured = rounds.profiled(lambda: next(plain), lambda: next(taken))
    assert (profile, measured["profiled_ms"], measured["call_ms"]) == ("b", 6.0, 5.0)
    assert measured["control_ms"] == [5.0, 5.1, 9.0, 5.2, 5.0]
    assert 0 <= measured["foreign"] <= 1
