"""select_operators: the problems of a run, by batch, and what was left out."""

import json
import sys

import pytest

from scripts.tools.operators import select_operators
from scripts.tools.operators.operators_plan import Operators
from scripts.tools.operators.problems.problem import read_problems

TRACE = """\
Operator: aten.add.Tensor
cnt: 3, ((T([2, 3], f32), T([2, 3], f32)), {})
cnt: 1, ((T([20, 30], f32), T([20, 30], f32)), {})
Operator: aten.relu.default
cnt: 5, ((T([4], f32),), {})
"""


@pytest.fixture
def select(tmp_path, monkeypatch):
    def run(*traces, batches=3, **selection):
        files = []
        for number, text in enumerate(traces):
            files.append(tmp_path / f"model{number}.txt")
            files[-1].write_text(text)
        source = {"dataset": "", "mapping": "", "batches": batches, "selection": selection}
        words = [
            "--source",
            json.dumps(source),
            "--traces",
            *map(str, files),
            "--out",
            str(tmp_path),
        ]
        monkeypatch.setattr(sys, "argv", ["select_operators", *words])
        select_operators.main()
        return tmp_path

    return run


def test_each_problem_is_in_the_batch_of_its_id_once(select):
    out = select(TRACE, TRACE)
    whole = read_problems(out / "problems.jsonl")
    assert [(p.op, p.count, p.models) for p in whole] == [
        ("aten.add.Tensor", 6, ("model0", "model1")),
        ("aten.add.Tensor", 2, ("model0", "model1")),
        ("aten.relu.default", 10, ("model0", "model1")),
    ]
    names = Operators(batches=3).batch_names()
    assert sorted(path.stem for path in (out / "batches").iterdir()) == names
    by_batch = {name: read_problems(out / "batches" / f"{name}.jsonl") for name in names}
    assert sorted(p.uuid for own in by_batch.values() for p in own) == sorted(p.uuid for p in whole)
    for name, own in by_batch.items():
        assert {Operators(batches=3).batch_of(p.uuid) for p in own} <= {name}


def test_what_is_left_out_is_counted_and_an_untraced_model_is_named(select, capsys):
    out = select(TRACE, "", max_elements=100, operators=["aten.*"])
    found = json.loads((out / "source.json").read_text())
    assert (found["problems"], found["selected"], found["larger"]) == (3, 2, 1)
    assert (found["operators"], found["selected_operators"]) == (2, 2)
    assert found["notes"] == [f"{out / 'model1.txt'} is empty: its model could not be traced"]
    assert "2 of 3 problems are selected" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("trace", "selection", "said"),
    [
        (
            TRACE,
            {"operators": ["aten.nothing*"]},
            "error: operators: none of 3 problems is selected",
        ),
        ("cnt: 1, ((), {})\n", {}, "model0.txt:1: a count before the first 'Operator: …'"),
    ],
)
def test_a_run_without_problems_says_why(select, capsys, trace, selection, said):
    with pytest.raises(SystemExit):
        select(trace, **selection)
    assert said in capsys.readouterr().err
