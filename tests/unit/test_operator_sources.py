"""Sources of operator problems (trace files and BackendBench's dataset), and their selection."""

import dataclasses
import hashlib
import json
import sys
from types import SimpleNamespace

import pytest

from scripts.tools.operators.problems import sources
from scripts.tools.operators.problems.problem import (
    Facts,
    Problem,
    Selection,
    merged,
    read_problems,
    select,
)
from scripts.tools.operators.problems.sources import SourceError

ADD = "((T([2, 3], f16), T([2, 3], f16)), {})"
BIG_ADD = "((T([20, 30], f16), T([20, 30], f16)), {})"
TRACE = f"""Operator: aten.add.Tensor
cnt: 156, {ADD}
cnt: 0, {BIG_ADD}

Operator: aten.sum.SymInt
cnt: 2, ((T([8], f16), [0], True), {{}})
"""
ROW = {
    "uuid": hashlib.sha256((ADD + "aten.add.Tensor").encode()).hexdigest(),
    "op_name": "aten.add.Tensor",
    "args": ADD,
    "runnable": True,
    "included_in_benchmark": True,
    "why_excluded": [],
    "is_synthetic": False,
    "runtime_ms": 0.5,
    "relative_runtime_to_kernel_launch": float("nan"),
    "is_overhead_dominated_op": True,
    "count": 7,
}
EXCLUDED = ROW | {
    "uuid": "2",
    "op_name": "aten.bernoulli_.float",
    "args": "((T([4], f16), 0.5), {})",
    "included_in_benchmark": False,
    "why_excluded": ["random"],
    "is_overhead_dominated_op": False,
    "count": 0,
    "is_synthetic": True,
}


def trace(tmp_path, text, name="bert.txt"):
    (tmp_path / name).write_text(text, encoding="utf-8")
    return sources.read_trace(tmp_path / name)


def json_file(tmp_path, rows, name="problems.json"):
    (tmp_path / name).write_text(json.dumps(rows), encoding="utf-8")
    return tmp_path / name


def parquet_file(tmp_path, rows, name="problems.parquet"):
    """Write the rows as parquet, through JSON, from which duckdb infers their types."""
    import duckdb

    rows = [{k: None if v != v else v for k, v in row.items()} for row in rows]
    lines = tmp_path / "rows.jsonl"
    lines.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    path = tmp_path / name
    duckdb.sql(f"COPY (SELECT * FROM read_json('{lines}')) TO '{path}' (FORMAT parquet)")
    return path


def test_a_trace_file_has_operators_counts_and_a_model(tmp_path):
    add, big, total = trace(tmp_path, TRACE)
    assert (add.op, add.args, add.count, add.models) == ("aten.add.Tensor", ADD, 156, ("bert",))
    assert add.uuid == ROW["uuid"]
    assert add.name == f"aten.add.Tensor-{add.uuid[:12]}"
    assert (add.elements, big.elements) == (12, 1200)
    assert total.op == "aten.sum.dim_IntList"


def test_a_trace_is_written_as_it_is_read(tmp_path):
    counts = {("aten.mul.Tensor", ADD): 3, ("aten.add.Tensor", BIG_ADD): 1, ("aten.add.Tensor", ADD): 5}  # fmt: skip
    sources.write_trace(tmp_path / "gpt2.txt", counts)
    text = (tmp_path / "gpt2.txt").read_text()
    assert text.splitlines()[:2] == ["Operator: aten.add.Tensor", f"cnt: 5, {ADD}"]
    assert {(p.op, p.args): p.count for p in sources.read_trace(tmp_path / "gpt2.txt")} == counts


def test_a_problem_of_several_models_is_one(tmp_path):
    both = [*trace(tmp_path, TRACE), *trace(tmp_path, TRACE, "gpt2.txt")]
    found = list(merged(both))
    assert len(found) == 3
    assert (found[0].count, found[0].models) == (312, ("bert", "gpt2"))
    assert found[0].calls == (156, 156)
    again = [found[0], found[0], dataclasses.replace(found[0], models=("vit",), calls=())]
    assert next(merged(again[:2])).calls == (312, 312)
    assert next(merged(again)).calls == ()  # those of one model are not known


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cnt: 1, ((), {})\n", "bert.txt:1: a count before the first 'Operator: …'"),
        (
            f"{TRACE}cnt: 1, ((T([2], f17),), {{}})\n",
            "bert.txt:7: arguments of aten.sum.dim_IntList: column 10: unknown name 'f17'",
        ),
        (
            "Operator: aten.add.Tensor\nadd\n",
            "bert.txt:2: found 'add', expected 'Operator: <name>'",
        ),
        ("Operator: add\n", "bert.txt:1: operator 'add', expected a name such as aten.add.Tensor"),
    ],
)
def test_a_broken_trace_is_reported_with_its_line(tmp_path, text, said):
    with pytest.raises(SourceError) as raised:
        trace(tmp_path, text)
    assert said in str(raised.value)


@pytest.mark.parametrize("write", [json_file, parquet_file])
def test_a_dataset_keeps_all_its_fields(tmp_path, write):
    problems, notes = sources.read_dataset(write(tmp_path, [ROW, EXCLUDED]))
    first, second = problems
    assert (first.op, first.args, first.count) == ("aten.add.Tensor", ADD, 7)
    assert first.source_uuid == first.uuid == ROW["uuid"]
    assert first.facts == Facts(
        runnable=True,
        included_in_benchmark=True,
        why_excluded=(),
        is_synthetic=False,
        runtime_ms=0.5,
        relative_runtime_to_kernel_launch=None,
        is_overhead_dominated_op=True,
    )
    assert second.facts.why_excluded == ("random",)
    assert second.source_uuid == "2"
    (note,) = notes
    assert "source models are unknown, so problems are weighted by count alone" in note


def test_source_models_are_those_of_the_dataset_or_of_the_mapping(tmp_path):
    models = ["TorchBench/alexnet", "HuggingFace/Bert"]
    own = [ROW | {"in_models": models, "in_models_count": 2}, EXCLUDED | {"in_models": []}]
    problems, notes = sources.read_dataset(json_file(tmp_path, own))
    assert ([p.models for p in problems], notes) == ([tuple(models), ()], [])
    mapped = [
        {"operator name": ROW["op_name"], "used in model": model, "args": ADD} for model in models
    ]
    mapping = parquet_file(tmp_path, mapped, "mapping.parquet")
    problems, notes = sources.read_dataset(json_file(tmp_path, [ROW, EXCLUDED]), mapping)
    assert ([p.models for p in problems], notes) == ([tuple(models), ()], [])
    with pytest.raises(SourceError, match="no problem of"):
        sources.read_dataset(json_file(tmp_path, [EXCLUDED]), mapping)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "x.json: no row"),
        ('[{"op_name": "a"}]', "x.json: no column args, runnable, included_in_benchmark"),
        ("{", "x.json: not valid JSON"),
        ("[1]", "x.json: expected a list of objects, or an object per line"),
        (
            json.dumps([ROW, ROW | {"args": "((1"}]),
            "x.json: row 2: arguments of aten.add.Tensor: column 2: '(' was never closed",
        ),
        (json.dumps([ROW | {"count": "x"}]), "x.json: row 1: ValueError: invalid literal"),
    ],
)
def test_a_broken_dataset_is_reported(tmp_path, text, said):
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    with pytest.raises(SourceError) as raised:
        sources.read_dataset(tmp_path / "x.json")
    assert said in str(raised.value)


def test_what_is_no_parquet_is_reported(tmp_path):
    (tmp_path / "x.parquet").write_text("no", encoding="utf-8")
    with pytest.raises(SourceError, match=r"x\.parquet: not read as parquet"):
        sources.read_dataset(tmp_path / "x.parquet")


def test_a_dataset_is_located_by_path_or_fetched_by_hub_id(tmp_path, monkeypatch):
    path = json_file(tmp_path, [ROW])
    assert sources.located(str(path), sources.PROBLEMS) == path
    with pytest.raises(SourceError, match="no such file, expected a path or a hub id"):
        sources.located("gone/problems.json", sources.PROBLEMS)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(SourceError, match=r"requirements-hub\.txt"):
        sources.located("owner/name", sources.PROBLEMS)
    asked = []

    def download(*args, **kwargs):
        asked.append((args, kwargs))
        return str(path)

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(hf_hub_download=download))
    assert sources.located("owner/name@v1.0", sources.PROBLEMS) == path
    assert asked == [
        (("owner/name", sources.PROBLEMS), {"repo_type": "dataset", "revision": "v1.0"})
    ]


def test_a_problem_survives_json(tmp_path):
    facts = Facts(True, False, ("random",), True, None, 1.5, False)
    problem = Problem("aten.add.Tensor", ADD, 3, ("bert",), facts, "u")
    plain = Problem("aten.add.Tensor", ADD)
    (tmp_path / "problems.jsonl").write_text(problem.line() + plain.line())
    assert read_problems(tmp_path / "problems.jsonl") == [problem, plain]


class TestSelection:
    @pytest.fixture
    def problems(self, tmp_path):
        return sources.read_dataset(json_file(tmp_path, [ROW, EXCLUDED]))[0]

    @pytest.fixture
    def sized(self):
        return [
            Problem("aten.add.Tensor", f"((T([{n}], f16), T([{n}], f32)), {{}})") for n in (5, 1, 9)
        ] + [Problem("aten.mul.Tensor", "((T([7], bf16),), {})", models=("bert",))]

    @pytest.mark.parametrize(
        ("kind", "expected"),
        [("included", [0]), ("overhead", [0]), ("synthetic", [1]), ("runnable", [0, 1]), ("all", [0, 1])],
    )  # fmt: skip
    def test_by_what_the_dataset_says(self, problems, kind, expected):
        assert select(problems, Selection(select=kind)) == [problems[i] for i in expected]

    def test_of_traces_the_synthetic_ones_have_no_count(self, tmp_path):
        found = trace(tmp_path, TRACE)
        assert select(found, Selection()) == [found[0], found[2]]
        assert select(found, Selection(select="synthetic")) == [found[1]]
        assert select(found, Selection(select="runnable")) == found

    def test_by_operator_and_source_model(self, sized):
        assert select(sized, Selection(operators=("aten.m*",))) == sized[3:]
        assert select(sized, Selection(source_models=("b*", "x"))) == sized[3:]
        assert select(sized, Selection(operators=("aten.relu*",))) == []

    def test_by_size(self, sized):
        five, one, nine, mul = sized
        assert select(sized, Selection(smallest=2)) == [five, one, mul]
        assert select(sized, Selection(largest=1)) == [nine, mul]
        assert select(sized, Selection(smallest=1, largest=1)) == [one, nine, mul]
        assert select(sized, Selection(largest=9)) == sized
        assert select(sized, Selection(max_elements=10)) == [five, one, mul]

    def test_empty_problems_are_the_smallest_only_where_there_are_no_others(self):
        none, one, two = (
            Problem("aten.exp.default", f"((T([{n}], f16),), {{}})") for n in (0, 1, 2)
        )
        assert select([two, none, one], Selection(smallest=1)) == [one]
        assert select([two, none, one], Selection(largest=3)) == [two, one]
        assert select([none], Selection(smallest=1)) == [none]

    def test_a_dtype_replaces_those_that_were_traced(self, sized):
        found = select(sized, Selection(dtype="f32"))
        assert found[0].args == "((T([5], f32), T([5], f32)), {})"
        assert found[0].source_uuid == sized[0].uuid
        same = [Problem("aten.relu.default", f"((T([3], {d}),), {{}})", 2) for d in ("f16", "f32")]
        (one,) = select(same, Selection(dtype="f32"))
        assert one.count == 4
