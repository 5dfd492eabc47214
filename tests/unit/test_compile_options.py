"""Baselines with arguments of torch.compile of their own, and when a runtime has compiled all."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts.baselines.sessions.runtime import Work
from scripts.config import choices, expansion, settings
from scripts.config.cell import of_axes
from scripts.config.entries import Baseline
from scripts.core import requests
from scripts.measure.timing.calls import Counters
from scripts.results import record, results_file
from scripts.results.results_table import Table
from scripts.results.row import Column
from scripts.run.params import Requests
from scripts.stages import verify_baseline
from tests.rows import record as row
from tests.rows import steady

ROOT = Path(__file__).parents[2]
INDUCTOR = {"runtime": "inductor", "device": "cpu", "env": "torch-mlir"}


def expanded(**entry):
    given = {"baselines": {"own": {**INDUCTOR, **entry}}}
    declared, _ = settings.load(given, [ROOT / "config.yaml"], ROOT)
    return expansion.expand(declared, {"models": "conv", "baselines": "own"}, ROOT)


def test_an_entry_may_set_each_argument():
    given = {
        "fullgraph": True,
        "dynamic": True,
        "options": {"freezing": True, "epilogue_fusion": 1},
    }
    matrix = expanded(compile=given)
    assert matrix.baselines["own"].compile == given
    asked = Requests(matrix).baseline(of_axes(model="conv", baseline="own", test="eval"))
    assert json.loads(asked)["compile"] == given


def test_an_entry_without_them_has_the_request_that_it_had_before():
    asked = Requests(expanded()).baseline(of_axes(model="conv", baseline="own", test="eval"))
    assert "compile" not in json.loads(asked)


@pytest.mark.parametrize("mode", choices.COMPILE_MODES)
def test_every_mode_is_allowed(mode):
    assert expanded(compile={"mode": mode}).baselines["own"].compile == {"mode": mode}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"compile": {"mode": "max"}}, "baselines.own.compile.mode: found \"max\", which should be 'default',"),
        ({"compile": {"dynamic": 2}}, "baselines.own.compile.dynamic: found 2"),
        ({"compile": {"modes": "x"}}, "baselines.own.compile.modes: unknown key 'modes'"),
        (
            {"compile": {"mode": "default", "options": {"freezing": True}}},
            "baselines.own.compile: found mode and options",
        ),
        ({"compile": {"mode": "default"}, "runtime": "eager"}, "own.compile: means nothing to eager"),
    ],
)  # fmt: skip
def test_what_torch_compile_does_not_take_is_refused(entry, said):
    with pytest.raises(settings.ConfigError) as problem:
        expanded(**entry)
    assert said in str(problem.value)


def test_the_request_of_a_baseline_takes_them():
    files = ("name", "model_file", "weights", "inputs", "golden", "signature")
    fields = dict.fromkeys(files, "x") | {"runtime": "inductor"}
    assert requests.decode(Work, fields | {"compile": {"dynamic": True}}).compile == {
        "dynamic": True
    }
    assert requests.decode(Work, fields).compile == {}


def test_a_record_has_them_and_its_target_is_the_name_of_the_entry(results):
    own = Baseline("own", "inductor", "cpu", "torch-mlir", compile={"mode": "max-autotune"})
    plain = Baseline("inductor", "inductor", "cpu", "torch-mlir")
    baselines = {"own": own, "inductor": plain}
    results.matrix = dataclasses.replace(results.matrix, baselines=baselines)
    results.write()
    found = {
        one["experiment"]["target"]: one
        for one in record.records(results.matrix)
        if one["experiment"]["runtime"] == "inductor" and one["model"]["name"] == "conv"
    }
    assert found["own"]["experiment"]["compile"] == {"mode": "max-autotune"}
    assert "compile" not in found[None]["experiment"]
    # Compared with inductor in its default mode, although the other one comes first.
    assert found["own"]["latency"]["verdict"] is not None
    assert found[None]["latency"]["speedup_vs_inductor_low"] == 1.0
    assert not any(map(results_file.MODELS.problem, found.values()))


def test_such_a_baseline_has_means_over_inductor_too():
    own = row(Column("inductor-own"), steady(5.0))
    own["experiment"]["compile"] = {"dynamic": True}
    found = [row(Column("eager"), steady(20.0)), row(Column("inductor"), steady(10.0)), own]
    means = {mean.column.name: mean for mean in Table.of_records(found).means}
    of_eager, of_faster = means["inductor-own"].over
    assert (of_eager.interval.ratio, of_faster.interval.ratio) == (
        pytest.approx(4.0),
        pytest.approx(2.0),
    )
    assert means["inductor"].over[1] is None


class Compiling:
    """A device that compiles in some of its calls, by their numbers."""

    kind = "cpu"

    def __init__(self, *compiles: int) -> None:
        self.compiles, self.made = compiles, 0

    def call(self) -> None:
        self.made += 1

    def finish(self) -> None:
        """Nothing is pending."""

    def counters(self) -> Counters:
        return Counters(sum(number <= self.made for number in self.compiles), 0.0, 0, 0.0)


def warm_calls(device: Compiling) -> int:
    """The calls until one has compiled nothing."""
    verify_baseline._warm_run(device.call, device, SimpleNamespace(), lazy=False, watch=False)
    return device.made


def test_a_baseline_is_called_until_it_compiles_no_more():
    assert warm_calls(Compiling()) == 1
    assert warm_calls(Compiling(1)) == 2
    assert warm_calls(Compiling(1, 2, 3, 4, 5)) == verify_baseline.WARM_CALLS
