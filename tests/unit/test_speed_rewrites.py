"""Rewrites for speed: the switch, baselines that run the rewritten graph, and their rows."""

import dataclasses
import json
from pathlib import Path

import pytest

from scripts.baselines.sessions import runtime
from scripts.baselines.sessions.runtime import Work
from scripts.config import expansion, plugins, settings
from scripts.config.cell import of_axes
from scripts.config.entries import Baseline
from scripts.core import exits, requests
from scripts.results import columns, record, results_file
from scripts.results.columns import FIELDS
from scripts.run.params import Requests

ROOT = Path(__file__).parents[2]
NAME = "project-before-aggregation"


def expanded(given: dict | None = None, **selections: str):
    declared, _ = settings.load(given or {}, [ROOT / "config.yaml"], ROOT)
    return expansion.expand(declared, {"models": "conv", **selections}, ROOT)


def test_the_names_are_those_that_the_package_declares():
    assert NAME in plugins.speed_rewrites()


def test_one_switch_leaves_every_frontend_the_rewrites_that_it_needs():
    def rewrites(matrix):
        return {f.name: f.options["rewrites"] for f in matrix.all_frontends().values()}

    usual = rewrites(expanded(frontends="*"))
    assert set(usual.values()) == {"all"}
    off = rewrites(expanded({"speed_rewrites": False}, frontends="*"))
    assert off == dict.fromkeys(usual, "needed")
    bare = {"frontends": {"torchxla-stablehlo": {"options": {"rewrites": "none"}}}}
    assert rewrites(expanded({"speed_rewrites": False, **bare}))["torchxla-stablehlo"] == "none"


def test_the_rewritten_baselines_run_when_named_and_say_so_in_their_requests():
    assert not any(one.rewrites for one in expanded().baselines.values())
    matrix = expanded(baselines="*+rewrite,eager")
    assert list(matrix.baselines) == ["eager", "eager+rewrite", "inductor+rewrite"]
    plan = Requests(matrix)
    for name in matrix.baselines:
        asked = json.loads(plan.baseline(of_axes(model="conv", baseline=name, test="eval")))
        assert asked.get("rewrites") == (None if name == "eager" else "speed")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"baselines": {"own": {"runtime": "xla", "device": "cpu", "env": "torch-xla", "rewrites": "speed"}}}, "baselines.own.rewrites: means nothing to xla"),
        ({"baselines": {"eager+rewrite": {"rewrites": "all"}}}, "baselines.eager+rewrite.rewrites: found \"all\""),
        ({"operators": {"baselines": ["eager+rewrite"]}}, "eager+rewrite is of runtime eager, precision none; single operators run in"),
    ],
)  # fmt: skip
def test_what_cannot_run_a_rewritten_graph_is_refused(given, said):
    with pytest.raises(settings.ConfigError) as problem:
        expanded(given, **({"baselines": "own"} if "own" in given.get("baselines", {}) else {}))
    assert said in str(problem.value)


def test_a_training_step_of_a_rewritten_graph_is_unsupported(capsys):
    files = ("name", "model_file", "weights", "inputs", "golden", "signature")
    fields = dict.fromkeys(files, "x") | {"runtime": "eager", "rewrites": "speed"}
    runtime.prepare_process(requests.decode(Work, fields))
    with pytest.raises(SystemExit) as refused:
        runtime.prepare_process(requests.decode(Work, fields | {"test": "train"}))
    assert refused.value.code == exits.UNSUPPORTED
    assert "rewritten for eval, not for train" in capsys.readouterr().err


def test_the_row_names_the_rewrites_and_is_compared_with_the_runtime_as_it_is(results):
    own = Baseline("eager+rewrite", "eager", "cpu", "torch-mlir", rewrites="speed")
    plain = Baseline("eager", "eager", "cpu", "torch-mlir")
    baselines = {"eager+rewrite": own, "eager": plain}
    results.matrix = dataclasses.replace(results.matrix, baselines=baselines)
    results.write()
    path = Path("results/baseline/conv/eager+rewrite/eval/verification.json")
    results.verify(path, rewrites=(NAME,))
    found = {
        one["experiment"]["target"]: one
        for one in record.records(results.matrix)
        if one["experiment"]["runtime"] == "eager" and one["model"]["name"] == "conv"
    }
    rewritten, usual = (
        columns.as_row(found["eager+rewrite"], FIELDS),
        columns.as_row(found[None], FIELDS),
    )
    assert (rewritten["rewrites"], usual["rewrites"]) == (NAME, None)
    assert found["eager+rewrite"]["experiment"]["rewrites"] == "speed"
    # Eager takes 10 ms, the other one 20 ms.
    assert rewritten["speedup_vs_eager"] == pytest.approx(0.5)
    assert usual["speedup_vs_eager"] == 1.0
    assert not any(map(results_file.MODELS.problem, found.values()))
