"""matrix: the cells of a run, their overrides, and conversion to and from plain values."""

import json

import pytest

from scripts.config.entries import (
    Baseline,
    Frontend,
    Model,
    Override,
    StepOverride,
    Target,
    TargetOverride,
)
from scripts.config.rows import Matrix, compact

CPU = Target("cpu", "llvm-cpu", "host", "O3", ("--a",), "local-task")
FULL = Matrix(
    models={
        "a": Model("a", "models/a.py", options={"size": "5"}, tolerance={"cosine": True}),
        "b": Model("b", "/elsewhere/b.py", "user", default_batch_size=4, torchbench="B"),
    },
    frontends={"f": Frontend("f", "x", "e", {"dialect": "torch"}), "g": Frontend("g", "y", "e")},
    targets={
        "cpu": CPU,
        "gpu": Target(
            "gpu",
            "cuda",
            "sm_80",
            "O2",
            (),
            "cuda",
            ("g",),
            overrides=(TargetOverride("b", flags=("--b",), train=StepOverride("O1")),),
        ),
    },
    baselines={
        "eager": Baseline("eager", "eager", "cpu", "e"),
        "half": Baseline("half", "eager", "cuda", "e", "fp16", "--xla_a"),
    },
    measure={"repeat": 3, "collect": ["operators"]},
    limits={"compile": {"timeout_s": 10}},
    expect={"*": {"status": "error"}},
    reference_env="e",
    tests=("eval", "train"),
    train={"name": "Adam", "lr": 0.5},
    dumps={"kinds": ["ir"], "repeat": 2},
    overrides={
        "a/f/cpu": Override("skip.all of x.yaml"),
        "a/half/train": Override("", {"tol": 0.5, "cosine": False}),
        "b/eager/eval": Override(tolerance={"small_tensor_multiplier": True}),
    },
)


def names(found: Matrix) -> list[str]:
    return list(map(str, found.rows()))


def test_a_matrix_comes_back_from_json_as_it_was():
    again = Matrix.from_json(json.loads(json.dumps(FULL.to_json())))
    assert again == FULL
    assert names(again) == names(FULL)
    assert compact(again.to_json()) == compact(FULL.to_json())
    assert again.override("a/half/train") == FULL.overrides["a/half/train"]
    assert again.tests == ("eval", "train")
    assert again.targets["gpu"].frontends == ("g",)
    assert (again.target("a", "f", "gpu").flags, again.target("b", "f", "gpu").flags) == (
        (),
        ("--b",),
    )


def test_what_is_no_matrix_is_refused_with_the_key():
    with pytest.raises(ValueError, match=r"missing required field `models`"):
        Matrix.from_json({})
    values = FULL.to_json()
    values["targets"]["gpu"]["frontends"] = "g"
    with pytest.raises(ValueError, match=r"Expected `array`, got `str` - at `\$.targets"):
        Matrix.from_json(values)


def test_equal_values_make_equal_text_for_a_command_line():
    assert compact({"b": 1, "a": (2,)}) == compact({"a": [2], "b": 1})
    assert compact({"b": 1, "a": (2,)}) == '{"a":[2],"b":1}'
