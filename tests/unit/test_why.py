"""scripts.tools.profile.why: which modules a dispatch belongs to, which modules are shown as one, and what is said about them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.config.cell import Cell, Kind
from scripts.config.stages import status_path
from scripts.measure.timing.machine_limits import PRODUCT, TRIAD, MachineLimits, Sample
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome, Usage
from scripts.tools.profile import account as accounts
from scripts.tools.profile import rounds
from scripts.tools.profile import why as verb
from scripts.tools.profile.account import patterns, shares
from scripts.tools.profile.profile_files import Profiles
from scripts.tools.profile.rounds import CallTimes
from tests.report_records import write_profiles

CELL = "tiny/mlir/llvm-cpu"


def test_a_dispatch_belongs_to_the_modules_of_its_products_else_to_that_of_its_root():
    fused = [["mm", "aten.mm.default", "a"], ["add", "aten.add.Tensor", "b"]]
    assert shares(fused) == {"a": 1.0}
    assert shares([*fused[1:], ["n", "aten.mul.Tensor", None]]) == {"b": 1.0}
    assert shares([*fused, ["bmm", "aten.bmm.default", None]]) == {"a": 0.5, None: 0.5}
    assert shares([]) == {None: 1.0}


def test_what_all_layers_share_does_not_make_one_region_of_them(results, why):
    """The mask of all attentions has the line of the first one."""

    def attention(layer: int) -> list:
        return [f"sdpa_{layer}", "aten.scaled_dot_product_attention.default", f"layers.{layer}"]

    each = [dispatch(f"d_dispatch_{layer}", 2.0, 8, attention(layer), *[attention(0)] * bool(layer)) for layer in range(4)]  # fmt: skip
    changed(results, CELL, dispatches=each)
    regions = {region["name"]: region for region in json.loads(why("--json"))["regions"]}
    assert sum(region["regions"] for name, region in regions.items() if "layers" in name) == 4


def test_products_of_equal_shapes_are_one_row_whatever_their_modules(results, why):
    product = [["mm", "aten.mm.default", name] for name in ("q", "k", "v")]
    each = [dispatch(f"d_dispatch_{at}_matmul_4x4", 2.0, 8, node) for at, node in enumerate(product)]  # fmt: skip
    each.append(dispatch("d_dispatch_3_matmul_8x8", 2.0, 8, ["mm", "aten.mm.default", "out"]))
    changed(results, CELL, dispatches=each)
    rows = {row["name"]: row["regions"] for row in json.loads(why("--json"))["regions"]}
    assert (rows["q, k, v"], rows["out"]) == (3, 1)


def test_a_gap_without_a_large_part_is_said_to_have_none(results, why):
    times = {
        "call_ms": 2.1,
        "rounds_ms": [2.1, 2.1],
        "between_ms": [0.1, 0.1],
        "outside_ms": [0, 0],
    }
    changed(results, CELL, **times, dispatches=[IREE["dispatches"][0]])
    text = why()
    assert "No part of the gap to eager is 5% of IREE's call." in text
    assert "1." not in text.partition("Look first at")[2].splitlines()[1]


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


def dispatch(
    function: str, ms: float, tiles: int, *nodes: list, busy: float = 1.0, later: float = 1.0
) -> dict:
    """A dispatch of a profile of two rounds; the second one takes `later` times as long."""
    times = {"ms": ms, "rounds_ms": [ms, ms * later]}
    return {"function": function, **times, "tiles": tiles, "busy": busy, "nodes": list(nodes)}


def kernel(function: str, ms: float, *nodes: list, kind: str = "") -> dict:
    return {"function": function, "ms": ms, "rounds_ms": [ms], "nodes": list(nodes), "kind": kind}


IREE = {
    "runtime": "iree",
    "threads": 2,
    **{"call_ms": 11.0, "profiled_ms": 11.0, "control_ms": [11.0, 11.5], "foreign": 0.01, "load": 1.8},
    **{"rounds_ms": [11.0, 11.0], "between_ms": [0.5, 0.5], "outside_ms": [0.49, 0.49]},
    "kinds": {"": "Net", "fc": "Linear", "pool": "Pool"},
    "dispatches": [
        dispatch("d_dispatch_0_matmul", 2.0, 8, ["mm", "aten.mm.default", "fc"], ["add", "aten.add.Tensor", "fc"], busy=1.9),
        dispatch("d_dispatch_1_scatter", 8.0, 1, ["scatter_add", "aten.scatter_add.default", "pool"]),
        dispatch("_encoding_0", 0.01, 8),
    ],
}  # fmt: skip
EAGER = {
    "runtime": "eager",
    "threads": 2,
    **{"call_ms": 4.5, "profiled_ms": 4.5, "control_ms": [4.6, 4.5], "foreign": 0.0, "load": 1.2},
    **{"rounds_ms": [4.5], "between_ms": [0.1], "outside_ms": [0.0]},
    "kinds": {"": "Net", "fc": "Linear", "pool": "Pool"},
    "kernels": [
        kernel("aten.scatter_add", 1.5, ["scatter_add", "aten.scatter_add", "pool"]),
        kernel("aten.linear", 2.5, ["linear", "aten.linear", "fc"]),
        kernel("aten.sigmoid", 0.4, ["sigmoid", "aten.sigmoid", ""]),
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
    write_profiles(folder, "tiny/cpu/eval", {CELL: IREE, "tiny/eager/eval": EAGER})
    limits = folder / "machine_limits/cpu/limits.json"
    limits.parent.mkdir(parents=True)
    LIMITS.write(limits)
    return folder


LOOP = {
    **{"depth": 2, "instructions": 10, "arithmetic": {"32": 4}, "fused": 1, "stack": 2, "single": 3},
    **{"gathers": 1, "shuffles": 0, "calls": ["expf"], "bits": 32, "text": [".LBB_1:", "vaddss %xmm0"]},
}  # fmt: skip
CODE = {
    **{"name": "d_dispatch_1_scatter", "loop": LOOP, "data_tiled": True, "microkernels": ["iree_uk_mmt4d"]},
    "tiling": [
        "pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}",
        "vector_common_parallel = [1, 16]",
        "distribution = [8, 32, 0], vector_common_parallel = [8, 16, 0], vector_reduction = [0, 0, 4]",
    ],
    **{"flop": 80_000_000, "bytes": 4_000_000},
}  # fmt: skip


@pytest.fixture
def code(results) -> None:
    """The code of one of the dispatches."""
    path = results / "code/tiny/iree/mlir/llvm-cpu/code.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"functions": [CODE]}))


@pytest.fixture
def why(results, monkeypatch, capsys):
    """What `vmfbench why` prints about a cell, and its error."""

    def call(*options: str, cell: str = CELL) -> str:
        words = [cell] * bool(cell)
        monkeypatch.setattr(sys, "argv", ["why", *words, "--results", str(results), *options])
        with contextlib.suppress(SystemExit):
            verb.main()
        return "".join(capsys.readouterr())

    return call


def test_the_terms_regions_and_dispatches_are_shown_beside_another_runtime(why):
    assert (
        why()
        == """\
tiny/mlir/llvm-cpu: ms per call: IREE 11.0, eager 4.50, limit 0.400; 2 threads
control, the same calls where they were profiled: IREE 11.0 to 11.5, eager 4.50 to 4.60; load 1.8

Look first at
1. pool (1 ×): 8.00 ms, eager 1.50: idle threads +4.00 ± 0, slower code +2.50 ± 0.
   d_dispatch_1_scatter: 8.00 ms in 1 call (1 workgroup for 2 threads; no product: scatter_add).
   its code: vmfbench why tiny/mlir/llvm-cpu --dispatch d_dispatch_1_scatter
   by itself: vmfbench reduce tiny/mlir/llvm-cpu --dispatches
2. between kernels, in 3 dispatches: +0.890 ± 0 ms.

IREE − eager          ms  ±  of IREE's call
idle threads       +4.00  0            +36%
slower code        +2.00  0            +18%
between kernels   +0.890  0             +8%
layout changes   +0.0100  0             +0%
more work         −0.400  0             −4%
all                +6.50  ?            +59%

modules             ×  IREE ms  eager ms  difference  limit ms  GFLOP/s      GB/s     mostly        shape    inner loop
pool                1     8.00      1.50       +6.50         –        –   –     –  –  idle threads  scatter
(the model itself)  1        –     0.400      −0.400  0.000250        –   –     –  0  more work     sigmoid
fc                  1     2.00      2.50      −0.500     0.400       20  16     0  0  slower code   matmul
(all others)        1   0.0100         –     +0.0100

share    ms  calls  workgroups  busy  dispatch              operators    modules  inner loop
  73%  8.00      1           1   1.0  d_dispatch_1_scatter  scatter_add  pool
  18%  2.00      1           8   1.9  d_dispatch_0_matmul   mm, add      fc
"""
    )


def test_without_a_cell_the_fastest_cell_of_each_model_is_shown(results, why):
    faster = IREE | {"call_ms": 5.5, "rounds_ms": [5.5, 5.5]}
    changed(results, "tiny/mlir/flags", **faster)
    line = "tiny/mlir/flags 5.50 eager 4.50 1.22"
    assert line in " ".join(why(cell="").split())
    assert "there is no profile of openvino" in why("--against", "openvino", cell="")
    (results / "profile/tiny/cpu/eval/profiles.json").write_text("{")
    assert "has no profile; make them: vmfbench run --make profile" in why(cell="")


def test_json_has_every_region_and_dispatch(why):
    account = json.loads(why("--json"))
    assert [region["name"] for region in account["regions"]] == ["pool", "(no module)", "(the model itself)", "fc"]  # fmt: skip
    functions = [dispatch["function"] for dispatch in account["dispatches"]]
    assert functions == ["d_dispatch_1_scatter", "d_dispatch_0_matmul", "_encoding_0"]
    assert account["first"][0].startswith("pool (1 ×): 8.00 ms")


def test_the_inner_loops_stand_beside_the_regions_and_dispatches(code, why):
    lines = why().splitlines()
    loop = "one value at a time, 25% FMA, 20% on the stack, 30% loads of one value, 1 gather, calls expf"
    chosen = "DoubleTilingExpert, tiles 8×32×0, vectors 8×16×4, data-tiled, iree_uk_mmt4d"
    assert f"; {chosen}; inner loop: {loop})." in lines[5]
    assert [line.split()[0] for line in lines if line.endswith(loop)] == ["pool", "73%"]


def test_a_dispatch_is_shown_with_its_rates_and_its_loop(code, why):
    said = why("--dispatch", "d_dispatch_1")
    assert said.splitlines()[0] == "tiny/mlir/llvm-cpu: d_dispatch_1_scatter: 8.00 ms in 1 call, 73% of a call; 1 workgroup, 1.0 of 2 threads busy"  # fmt: skip
    assert "80 MFLOP and 4 MB in a call: 10.0 GFLOP/s, 0.5 GB/s; limit 0.800 ms" in said
    assert "\n  distribution = [8, 32, 0], vector_common_parallel" in said
    assert "10 instructions, 2 loops deep; arithmetic: 4 × 32 bits, 1 of them FMA; 2 on the stack, 3 of one value, 1 gathers, 0 shuffles" in said  # fmt: skip
    assert said.endswith(".LBB_1:\nvaddss %xmm0\n")


def test_a_dispatch_that_does_not_exist_names_the_near_ones(code, why):
    assert "no dispatch '1_sc'; near are: d_dispatch_1_scatter" in why("--dispatch", "1_sc")
    assert "there are: _encoding_0, d_dispatch_0_matmul" in why("--dispatch", "zzz")
    assert "near are: d_dispatch_0_matmul, d_disp" in why("--dispatch", "d_dispatch_7_matmul")


def test_without_the_code_of_a_cell_the_command_that_makes_it_is_named(why):
    missing = why("--dispatch", "d_dispatch_1_scatter")
    assert "tiny/mlir/llvm-cpu has no code; make it: vmfbench run --make profile" in missing


def test_another_runtime_than_the_fastest_can_be_chosen(results, why):
    slow = EAGER | {"runtime": "inductor", "call_ms": 9.0, "rounds_ms": [9.0], "between_ms": [4.6]}
    changed(results, "tiny/inductor/eval", **slow)
    assert "IREE − eager" in why()
    assert "IREE − inductor" in why("--against", "inductor")
    assert "there is no profile of openvino beside tiny/mlir/llvm-cpu; there are: eager, inductor" in why("--against", "openvino")  # fmt: skip


def test_without_other_profiles_iree_alone_is_shown(results, why):
    write_profiles(results, "tiny/cpu/eval", {CELL: IREE})
    (results / "machine_limits/cpu/limits.json").unlink()
    lines = why().splitlines()
    assert lines[0] == "tiny/mlir/llvm-cpu: ms per call: IREE 11.0; 2 threads"
    assert lines[3].split()[:3] == ["share", "ms", "calls"]


MODULES = st.sampled_from(("a", "b", "c", "", None))
OPERATORS = st.sampled_from(("aten.mm.default", "aten.add.Tensor", "aten.clone.default", "aten.convolution.default"))  # fmt: skip
TIMES = st.floats(0.001, 100)
NODES = st.lists(st.tuples(st.just("n"), OPERATORS, MODULES).map(list), max_size=3)
FUNCTIONS = st.sampled_from(("main_dispatch_3_matmul_4x4_f32", "main_dispatch_9_transpose_4x4_f32", "_encoding_1"))  # fmt: skip


def profiles_of(kernels: list[tuple[str, float, list]], between: float) -> dict:
    """A profile with these kernels."""
    each = [dispatch(name, ms, 4, *nodes, busy=1.5, later=1.25) for name, ms, nodes in kernels]
    whole = [sum(one["rounds_ms"][at] for one in each) + between * (1 + at / 4) for at in range(2)]
    times = {"rounds_ms": whole, "between_ms": [between, between * 1.25], "outside_ms": [0.0] * 2, "call_ms": whole[0]}  # fmt: skip
    beside = {"control_ms": whole, "foreign": 0.0, "load": 0.0}
    return {"threads": 2, "kinds": {}, "dispatches": each, **times, **beside}


@given(*[st.lists(st.tuples(FUNCTIONS, TIMES, NODES), max_size=8) for _ in range(2)], TIMES, TIMES)  # fmt: skip
def test_the_terms_add_up_to_the_gap_and_the_regions_to_the_calls(own, other, between, gap):
    cell = Cell.parse(CELL, Kind.IREE)
    account = accounts.account(
        Profiles(cell, profiles_of(own, between), {"eager": profiles_of(other, gap)}, None)
    )
    difference = account.call_ms["iree"] - account.call_ms["eager"]
    assert account.gap is not None
    assert account.gap.ms == pytest.approx(difference)
    assert sum(term.ms for term in account.terms.values()) == pytest.approx(difference, abs=1e-9)
    in_regions = sum(region.iree_ms for region in account.regions)
    assert in_regions + between == pytest.approx(account.call_ms["iree"])
    split = sum(term.ms for region in account.regions for term in region.terms.values())
    assert split == pytest.approx(sum(term.ms for name, term in account.terms.items() if name != accounts.BETWEEN), abs=1e-9)  # fmt: skip


def test_without_a_profile_the_command_or_the_failure_is_named(results, why):
    missing = why(cell="other/mlir/llvm-cpu")
    assert "vmfbench run --make profile --config models=other frontends=mlir" in missing
    one = Outcome("error", "profile", "other/cpu/eval", "exit-1", "it broke", log="l")
    path = results.parent / status_path("profile", "other/cpu/eval")
    outcome.write(path, one, Usage(0, 0))
    assert "failed: error (exit-1): it broke" in why(cell="other/mlir/llvm-cpu")


def test_the_failure_of_one_row_of_a_group_is_named(results, why):
    path = results / "profile/tiny/cpu/eval/profiles.json"
    members = json.loads(path.read_text())["members"]
    members[CELL] = {"status": "crashed", "reason": "SIGSEGV", "detail": "in a call"}
    path.write_text(json.dumps({"members": members}))
    assert "the profile of tiny/mlir/llvm-cpu failed: crashed (SIGSEGV): in a call" in why()


def test_limits_with_another_number_of_threads_are_not_shown(results, why):
    dataclasses.replace(LIMITS, threads=1).write(results / "machine_limits/cpu/limits.json")
    head = why().splitlines()[0]
    assert head == "tiny/mlir/llvm-cpu: ms per call: IREE 11.0, eager 4.50; 2 threads"


def timed(results: Path, own: list[float], eager: list[float], **variants: list[float]) -> None:
    """Write the timing of the group. `variants`: by target, of other rows of IREE."""
    path = results / "time/tiny/cpu/eval/timing.json"
    path.parent.mkdir(parents=True)
    rows = {CELL: own, "tiny/eager/eval": eager}
    rows |= {f"tiny/mlir/{target}": values for target, values in variants.items()}
    members = {name: {"values_ms": values} for name, values in rows.items()}
    path.write_text(json.dumps({"members": members}))


def changed(results: Path, row: str, **values: object) -> None:
    """Change the profile of a row, or add one."""
    path = results / "profile/tiny/cpu/eval/profiles.json"
    content = json.loads(path.read_text())
    member = content["members"].setdefault(row, {"status": "ok", "profile": {}})
    member["profile"] |= values
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(("ms", "is_named"), [(1.5, True), (7.99, False)])
def test_a_target_of_the_run_in_which_the_same_modules_take_less_time_is_named(results, why, ms, is_named):  # fmt: skip
    timed(results, [11.0, 11.1, 10.9, 11.0, 11.0], [4.5] * 5, flags=[11.0] * 5)
    first, second = IREE["dispatches"][0], dispatch("other_dispatch_3", ms, 8, *IREE["dispatches"][1]["nodes"])  # fmt: skip
    second["rounds_ms"] = [ms, 1.05 * ms]
    changed(results, "tiny/mlir/flags", **IREE | {"dispatches": [first, second]})
    said = "the same modules in tiny/mlir/flags: 1.54 ±"
    assert (said in why()) == is_named


def test_times_are_scaled_to_the_rows_which_were_timed_in_turns(results, why):
    """The machine was slower while IREE was profiled: its row says that it is as fast as eager."""
    timed(results, [8.0, 8.1, 8.0, 7.9, 8.0], [4.0, 4.0, 4.1, 3.9, 4.0])
    changed(results, CELL, rounds_ms=[16.0, 16.0], control_ms=[16.0])
    changed(results, "tiny/eager/eval", rounds_ms=[8.0], control_ms=[8.0])
    lines = why().splitlines()
    assert "IREE 8.00, eager 4.00" in lines[0]
    pool = next(line for line in lines if line.startswith("pool"))
    assert pool.split()[2:5] == ["4.00", "0.750", "+3.25"]
    assert next(line for line in lines if line.startswith("all ")).split()[1] == "+4.00"


@pytest.mark.parametrize(
    ("of", "values", "said"),
    [
        ("tiny/eager/eval", {"call_ms": 1283.0, "control_ms": [1283.0]}, "eager took 1,283 ms where it was profiled, and 4.00 ms in its row"),
        (CELL, {"control_ms": [11.0, 1136.0]}, "the same calls of IREE took 11.0 to 1,136 ms while it was profiled"),
        (CELL, {"foreign": 0.93}, "other processes used 93% of the cores while IREE was profiled"),
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


@pytest.mark.parametrize(
    ("call_ms", "pool_ms", "between"),
    [(10.5, 8.0, 0.5), (5.0, 8 * 5 / 10, 0.0)],
    ids=["as much as there is between", "more"],
)
def test_what_the_profiler_adds_is_taken_from_the_time_between_kernels(results, why, call_ms, pool_ms, between):  # fmt: skip
    """Of the 11 ms of a profiled call 10 are in kernels."""
    changed(results, CELL, call_ms=call_ms, control_ms=[call_ms, call_ms])
    changed(results, "tiny/eager/eval", between_ms=[0.0], control_ms=[4.5])
    account = json.loads(why("--json"))
    pool = next(region for region in account["regions"] if region["name"] == "pool")
    assert pool["iree_ms"] == pytest.approx(pool_ms, rel=0.01)
    assert account["terms"]["between kernels"]["ms"] == pytest.approx(between, abs=0.02)


def test_rows_that_do_not_say_how_they_compare_are_a_doubt(results, why):
    timed(results, [10.0, 9.0], [4.0, 4.1])
    said = "the rows of IREE and eager do not say how they compare: 2 generations and 2 generations"
    assert why().splitlines()[0].endswith(f": {said}")


def test_a_round_is_the_mean_of_its_faster_calls_and_the_fastest_round_gives_the_times():
    taken = iter([[8.0, 9.0], [6.0, 7.0, 99.0], [30.0], [7.0]])

    def take(calls: int) -> list[CallTimes]:
        assert calls >= rounds.CALLS
        return [CallTimes(ms, {"a": ms - 1, "b": 0.5}, 0.3, 0.2) for ms in next(taken)]

    profile = rounds.profiled(lambda: time.sleep(0.001), take, lambda key: {"name": key})
    assert profile["profiled_ms"] == 6.5
    assert profile["call_ms"] == min(profile["control_ms"]) >= 1
    assert len(profile["control_ms"]) == rounds.ROUNDS + 1
    assert profile["rounds_ms"] == [8.0, 6.5, 30.0, 7.0]
    assert [(kernel["name"], kernel["ms"]) for kernel in profile["kernels"]] == [("a", 5.5), ("b", 0.5)]  # fmt: skip
    assert profile["kernels"][0]["rounds_ms"] == [7.0, 5.5, 29.0, 6.0]
    assert 0 <= profile["foreign"] <= 1
