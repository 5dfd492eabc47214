"""`vmfbench fuzz` goes on where it stopped, and stops before work where its options are wrong."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from scripts.tools.fuzz import fuzz
from scripts.tools.fuzz.fuzz import BLOCK, Lane


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    """The command sets these for its workers; other tests must not inherit them."""
    for name in ("PYTHONPATH", "PYTHONSAFEPATH"):
        monkeypatch.setenv(name, "")


ARGS = argparse.Namespace(minutes=1.0, cores=1, seed=3, part=(1, 1))


GRAPH = {"inputs": [], "nodes": [], "results": []}
CHECKED = {"done": True, "task": {"graph": GRAPH}, "status": "ok"}


def lane(folder, *results: dict) -> Lane:
    """A lowering path whose first core has ended with these results."""
    journal = folder / "0" / "worker" / "journal.jsonl"
    journal.parent.mkdir(parents=True)
    lines = [json.dumps({"end": str(n), "result": result}) for n, result in enumerate(results)]
    journal.write_text("\n".join([json.dumps({"begin": "0"}), *lines, '{"end": "9", "resu']))
    return Lane("f/t", "python", {}, folder)


def block(first: int, seed: int = 3, **more) -> dict:
    return {"done": True, "task": {"seed": seed, "first": first, "count": BLOCK}, **more}


def test_blocks_that_have_ended_are_not_drawn_again(tmp_path):
    left = fuzz._blocks(lane(tmp_path, block(0), block(2 * BLOCK), CHECKED), [], ARGS)
    assert [task["first"] for task in left[:3]] == [BLOCK, 3 * BLOCK, 4 * BLOCK]


def test_blocks_of_another_seed_or_after_the_time_are_drawn(tmp_path):
    late = {**block(BLOCK), "done": False}
    left = fuzz._blocks(lane(tmp_path, block(0, seed=4), late), [], ARGS)
    assert [task["first"] for task in left[:2]] == [0, BLOCK]


def test_a_failure_is_reduced_once(tmp_path):
    failed = {"operators": ["neg.default"], "kind": "refused compile: a", "status": "refused", "stage": "compile", "detail": "a"}  # fmt: skip
    failing = block(0, failures=[{"number": 5, **failed}])
    (task,) = fuzz._reductions(lane(tmp_path / "a", failing), [], ARGS)
    assert task["name"] == "3-5"
    done = {"done": True, "task": task, "reduced": False}
    assert not fuzz._reductions(lane(tmp_path / "b", failing, done), [], ARGS)


def test_a_reduced_graph_is_mutated_once_and_a_mutation_that_fails_is_reduced(tmp_path):
    reduced = {"done": True, "task": {"name": "3-5"}, "reduced": True, "graph": GRAPH}
    (task,) = fuzz._mutations(lane(tmp_path / "a", reduced), [], ARGS)
    assert task == {"seed": 3, "first": 0, "count": BLOCK, "origin": GRAPH}
    failing = {"number": 7, "operators": [], "kind": "wrong run:", "status": "wrong", "stage": "run", "detail": ""}  # fmt: skip
    mutated = lane(tmp_path / "b", reduced, {"done": True, "task": task, "failures": [failing]})
    assert not fuzz._mutations(mutated, [], ARGS)
    (again,) = fuzz._reductions(mutated, [], ARGS)
    assert (again["origin"], again["number"]) == (GRAPH, 7)
    assert fuzz._blocks(mutated, [], ARGS)[0]["first"] == 0


def test_reduced_graphs_are_taken_along_the_other_paths_once(tmp_path):
    reduced = {"done": True, "task": {"name": "3-5"}, "reduced": True, "graph": GRAPH}
    own = lane(tmp_path / "a", reduced)
    other, checked = lane(tmp_path / "b"), lane(tmp_path / "c", CHECKED)
    lanes = [own, other, checked]
    assert fuzz._checks(other, lanes, ARGS) == [{"graph": GRAPH}]
    assert fuzz._checks(own, lanes, ARGS) == fuzz._checks(checked, lanes, ARGS) == []


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--targets", "llvm-gpu"], "llvm-gpu"),
        (["--frontends", "onnx-torch"], "frontends=onnx-torch"),
        (["--targets", "cuda"], "no frontend of exporter torch_mlir"),
        (["--baselines", "eager"], "those that take graphs are inductor, onnxruntime, openvino"),
    ],
)
def test_wrong_options_stop_before_work(option, message, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["vmfbench fuzz", *option, "--results", str(tmp_path)])
    with pytest.raises(SystemExit):
        fuzz.main()
    assert message in "".join(capsys.readouterr())
    assert not (tmp_path / "fuzz").exists()


def test_a_folder_that_cannot_be_written_stops_before_work(tmp_path, monkeypatch, capsys):
    (tmp_path / "fuzz").write_text("a file")
    monkeypatch.setattr("scripts.tools.fuzz.fuzz.Path.exists", lambda _: True)
    monkeypatch.setattr("sys.argv", ["vmfbench fuzz", "--results", str(tmp_path)])
    with pytest.raises(SystemExit):
        fuzz.main()
    assert "--results" in "".join(capsys.readouterr())


def test_each_frontend_level_and_toolchain_is_a_path(tmp_path, monkeypatch):
    monkeypatch.setattr("scripts.tools.fuzz.fuzz.Path.exists", lambda _: True)
    options = "--frontends torchmlir-torch,torchxla-stablehlo --levels O0 O3 --toolchains pinned,iree-3.12"
    monkeypatch.setattr("sys.argv", ["vmfbench fuzz", *options.split(), "--results", str(tmp_path)])
    lanes = fuzz._lanes(fuzz._arguments())
    targets = ("llvm-cpu-O0", "llvm-cpu-O3", "llvm-cpu@iree-3.12-O0", "llvm-cpu@iree-3.12-O3")
    paths = [f"{f}/{t}" for f in ("torchmlir-torch", "torchxla-stablehlo") for t in targets]
    assert [lane.name for lane in lanes] == paths
    assert [lane.fields["opt_level"] for lane in lanes] == ["O0", "O3"] * 4
    assert ["iree@iree-3.12" in lane.fields["packages"] for lane in lanes] == [False, False, True, True] * 2  # fmt: skip
    assert len({lane.folder for lane in lanes}) == len(lanes)


def test_a_baseline_takes_the_same_graphs_in_its_own_environment(tmp_path, monkeypatch):
    monkeypatch.setattr("scripts.tools.fuzz.fuzz.Path.exists", lambda _: True)
    monkeypatch.setattr("sys.argv", ["vmfbench fuzz", "--baselines", "inductor,openvino", "--results", str(tmp_path)])  # fmt: skip
    path, *baselines = fuzz._lanes(args := fuzz._arguments())
    assert [(b.name, Path(b.python).parts[-3]) for b in baselines] == [("inductor", "torch-mlir"), ("openvino", "openvino")]  # fmt: skip
    numbers = [{(t["seed"], t["first"] + n) for t in fuzz._blocks(lane, [], args) for n in range(t["count"])} for lane in (path, *baselines)]  # fmt: skip
    assert set(range(64)) <= {n for _, n in numbers[0] & numbers[1] & numbers[2]}


def test_the_largest_graph_of_a_block_is_timed_twice_if_there_are_paths_to_compare(tmp_path):
    drawn = block(0, largest={"number": 7, "graph": GRAPH})
    first, other = lane(tmp_path / "a", drawn), lane(tmp_path / "b")
    (task,) = fuzz._timings(other, [first, other], ARGS)
    assert (task["timed"], task["number"], task["turn"]) == (GRAPH, 7, 0)
    assert not fuzz._timings(first, [first], ARGS)
    timed = [{"done": True, "task": {**task, "turn": turn}, "ms": 1.0} for turn in range(2)]
    (again,) = fuzz._timings(lane(tmp_path / "c", timed[0]), [first, other], ARGS)
    assert again["turn"] == 1
    assert not fuzz._timings(lane(tmp_path / "d", *timed), [first, other], ARGS)


def test_each_task_belongs_to_one_part_whatever_else_there_is(tmp_path):
    parts = [(number, 3) for number in (1, 2, 3)]
    tasks = fuzz._blocks(lane(tmp_path), [], argparse.Namespace(**{**vars(ARGS), "part": (1, 3)}))
    of_part = [[task for task in tasks if fuzz._is_in(part, task)] for part in parts]
    assert sorted(task["first"] for part in of_part for task in part) == [t["first"] for t in tasks]
    assert all(of_part)


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b"])
def test_a_part_is_one_of_a_number(text, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["vmfbench fuzz", "--part", text])
    with pytest.raises(SystemExit):
        fuzz._arguments()
    assert f"'{text}'" in capsys.readouterr().err
