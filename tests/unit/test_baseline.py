"""Running a baseline: what is rejected before it begins, how calls are waited for and counted."""

import os
from pathlib import Path

import pytest

from scripts.baselines.sessions import runtime
from scripts.core import exits, requests
from scripts.frontends.torch_model.arguments import Optimizer
from scripts.measure.timing.calls import Counters, run_calls

REQUIRED = {
    "name": "m",
    "model_file": "m.py",
    "weights": "w",
    "inputs": "i",
    "golden": "g",
    "signature": "s",
}


def work(**fields) -> runtime.Work:
    return requests.decode(runtime.Work, REQUIRED | fields)


def test_a_request_is_checked_at_the_door():
    adam = {"name": "Adam", "betas": [0.8, 0.9]}
    found = work(runtime="eager", threads=3, optimizer=adam)
    assert (found.model.name, found.model.model_file, found.model.options) == (
        "m",
        Path("m.py"),
        {},
    )
    assert (found.runtime, found.device, found.threads, found.test) == ("eager", "cpu", 3, "eval")
    assert found.optimizer == Optimizer("Adam", 0.01, {"betas": [0.8, 0.9]})
    assert found.program is None


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ({"runtime": "onnxruntime", "test": "train"}, exits.UNSUPPORTED, "runs eval, not train"),
        (
            {"runtime": "openvino", "test": "train"},
            exits.UNSUPPORTED,
            "openvino runs eval, not train",
        ),
        ({"runtime": "litert", "program": "p.mlir"}, 1, "litert takes no program"),
        ({"runtime": "xla_stablehlo"}, 1, "xla_stablehlo needs a program"),
        ({"runtime": "eager", "program": "p.mlir"}, 1, "eager takes no program"),
    ],
)
def test_what_a_runtime_does_not_run_is_refused_before_it_is_imported(capsys, given, code, said):
    with pytest.raises(SystemExit) as refused:
        runtime.prepare_process(work(**given))
    assert refused.value.code == code
    assert said in capsys.readouterr().err


def test_the_flags_of_xla_are_set_before_the_runtime_is_imported(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "")
    runtime.prepare_process(work(runtime="xla", xla_flags="--a=1 --b"))
    assert os.environ["XLA_FLAGS"] == "--a=1 --b"


class Device:
    """Counts like XLA: a call executes when it is finished, or in itself where `inside`."""

    def __init__(self, counts: bool = True, inside: bool = False) -> None:
        self.counts, self.inside = counts, inside
        self.pending = self.executed = 0

    def call(self) -> int:
        self.pending += 1
        if self.inside:
            self.finish()
        return self.executed + self.pending

    def finish(self) -> None:
        self.executed, self.pending = self.executed + self.pending, 0

    def counters(self) -> Counters | None:
        return Counters(0, 0.0, self.executed, self.executed * 0.5) if self.counts else None


def test_every_call_is_finished_before_the_next_and_the_first_ones_results_are_kept():
    device = Device()
    found = run_calls(device.call, device, 3, keep=True)
    assert (device.executed, device.pending) == (3, 0)
    assert found.first == 1
    assert (found.run.iterations, found.run.execute_count, found.run.execute_s) == (3, 3, 1.5)
    assert found.run.total_s >= found.first_s >= 0
    assert not found.inside


def test_without_counters_a_run_has_its_seconds_alone():
    device = Device(counts=False)
    found = run_calls(device.call, device, 2, watch=True)
    assert (found.run.trace_s, found.run.compile_s, found.run.execute_s) == (None, None, None)
    assert found.first is None


@pytest.mark.parametrize("lazy", [True, False])
def test_what_executes_inside_a_call_is_no_tracing_of_a_lazy_runtime(lazy):
    device = Device(inside=True)
    found = run_calls(device.call, device, 2, watch=True, lazy=lazy)
    assert found.inside
    assert (found.run.trace_s < 0) == lazy  # a second of execution in no time
