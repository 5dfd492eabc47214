"""measure_iree: how the schedule is planned, and what is timed if the first call was slow."""

import importlib.metadata
import json
from types import SimpleNamespace

import numpy as np
import pytest

from scripts.lib.artifacts import tensors
from scripts.lib.artifacts.tensors import Signature, TensorType
from scripts.lib.iree import in_process, measure
from scripts.lib.iree.benchmark import Timed
from scripts.lib.iree.session import Module
from scripts.lib.timing import calls
from scripts.lib.timing.arguments import Timing
from scripts.lib.timing.latency import HostLoad, Latency
from scripts.lib.timing.measurement import Verification
from scripts.lib.timing.stopping import Schedule, StoppingRule
from scripts.lib.verification.arguments import Check

RULE = StoppingRule(repeat=10, repetition_s=0.1, warmup_s=0.5, budget_s=5)
TIMING = Timing(RULE, threads=1)
ONCE = Schedule(iterations=1, repetitions=1, warmup_s=0.0)


class Calibrator:
    """Does not watch the machine."""

    result = None
    resident_mb = 0.0

    def __init__(self, threads: int) -> None:
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def take(self):
        pass


class Device:
    """A device on which time passes only in calls: `call_s` seconds in each call except the first.

    `loaded`, `closed` and `called` count, `ran` is what the tool was given.
    """

    def __init__(self, call_s: float) -> None:
        self.call_s, self.now = call_s, 0.0
        self.loaded = self.called = self.closed = 0
        self.ran: list[Schedule] = []

    def session(self, module: Module, threads: int) -> SimpleNamespace:
        self.loaded += 1
        return SimpleNamespace(load_s=20.0, uploaded=lambda inputs: self.call, close=self.close)

    def close(self) -> None:
        self.closed += 1

    def call(self) -> None:
        self.called += 1
        self.now += self.call_s

    def tool(self, module, flags, timing, chosen: Schedule, report) -> Timed:
        assert self.closed == self.loaded  # or the weights would be in the device's memory twice
        self.ran.append(chosen)
        values = (self.call_s * 1e3,) * chosen.repetitions
        return Timed(Latency(values, values), HostLoad(0, 0), "tool", 1.0)

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return 2 * self.now  # two threads are busy


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Measure a module on a device URI with given call times; return (measurement, Device)."""
    kind = (TensorType("x", (2,), "float32"),)
    signature = Signature("m", "f32", 1, kind, kind, kind, {}, {}, "", True, 0.0, True)
    signature.write(tmp_path / "signature.json")
    tensors.save_npz(tmp_path / "inputs.npz", {"0": np.ones(2, np.float32)})
    check = Check(tmp_path / "golden.npz", tmp_path / "signature.json", {})
    files = measure.Files(tmp_path / "inputs.npz", tmp_path / "raw", tmp_path / "m.json")
    passed = Verification("PASS", "", 0.0, None, None, 1e-3)

    def run(uri: str, first_s: float, call_s: float, rule: StoppingRule = RULE):
        device = Device(call_s)
        monkeypatch.setattr(importlib.metadata, "version", lambda _: "3.0")
        monkeypatch.setattr(measure, "Session", device.session)
        monkeypatch.setattr(measure, "Calibrator", Calibrator)
        monkeypatch.setattr(measure, "_verified", lambda *_: (passed, first_s))
        monkeypatch.setattr(measure.benchmark, "run", device.tool)
        monkeypatch.setattr(measure.benchmark, "tool", lambda name: f"/bin/{name}")
        monkeypatch.setattr(calls, "time", device)
        module = Module(tmp_path / "m.vmfb", tmp_path / "w.irpa", uri)
        measure.measure(module, "a device", files, check, Timing(rule, threads=1))
        return json.loads(files.out.read_text()), device

    return run


def test_a_call_longer_than_the_budget_is_timed_in_the_process_that_verified_it(measured):
    found, device = measured("vulkan", first_s=24.0, call_s=18.0)
    assert found["latency"]["values_ms"] == [18_000.0]
    assert found["latency"]["cpu_ms"] == [36_000.0]
    assert found["timer"] == "python"
    assert (device.loaded, device.called, device.ran) == (1, 1, [])  # and the first call
    # The command that repeats it by hand.
    assert found["command"].startswith("/bin/iree-benchmark-module ")
    assert " --input=2xf32=@" in found["command"]


def test_calls_of_a_repetition_are_as_many_as_the_rule_sets(measured):
    rule = StoppingRule(repeat=10, iterations_per_run=3, budget_s=5)
    found, device = measured("vulkan", 24.0, 18.0, rule)
    assert (found["latency"]["values_ms"], found["latency"]["iterations"]) == ([18_000.0], 3)
    assert device.called == 3


def test_a_device_that_is_slow_in_its_first_call_alone_is_timed_by_the_rule(measured):
    found, device = measured("vulkan", first_s=24.0, call_s=0.02)
    assert device.ran == [Schedule(iterations=5, repetitions=5, warmup_s=0.5)]
    assert (found["timer"], len(found["latency"]["values_ms"])) == ("iree-benchmark-module", 5)


def test_short_calls_are_the_tools_however_small_the_budget(measured):
    rule = StoppingRule(budget_s=0.001)
    assert measured("vulkan", 0.02, 0.02, rule)[0]["timer"] == "iree-benchmark-module"
    found, device = measured("vulkan", 1.5, 0.02, rule)  # only the first call is slow
    assert (found["timer"], device.ran) == ("iree-benchmark-module", [Schedule(5, 1, 0.0)])


def test_long_calls_on_a_cpu_are_the_tools_which_has_the_caching_allocator(measured):
    found, device = measured("local-task", first_s=9.0, call_s=8.0)
    assert (found["timer"], device.ran) == ("iree-benchmark-module", [ONCE])
    assert not in_process.is_for("local-task", 9.0, RULE)


@pytest.fixture
def timed(monkeypatch):
    """Run `_timed` for a device with given seconds per warm call; return the schedules it used."""
    monkeypatch.setattr(measure, "Calibrator", Calibrator)

    def of(call_s: float, chosen: Schedule | None) -> tuple[dict, list[Schedule]]:
        device = Device(call_s)

        def run(schedule: Schedule) -> Timed:
            return device.tool(None, None, None, schedule, None)

        return measure._timed(run, chosen, TIMING), device.ran

    return of


def test_a_slow_device_is_timed_once_after_a_call_that_does_not_count(timed):
    found, ran = timed(13.0, None)
    assert ran == [ONCE]
    assert found["latency"].values_ms == (13_000.0,)


def test_what_is_slow_in_its_first_call_alone_is_timed_again_by_the_rule(timed):
    found, ran = timed(0.02, None)
    assert ran[1:] == [Schedule(iterations=5, repetitions=5, warmup_s=0.5)]
    assert found["latency"].count == 5


def test_what_is_planned_is_timed_as_planned(timed):
    chosen = Schedule(3, 4, 0.5)
    assert timed(1.0, chosen)[1] == [chosen]


def test_a_first_call_longer_than_the_budget_says_nothing_of_those_after_it():
    slow, quick = SimpleNamespace(uploaded=None), SimpleNamespace(uploaded=lambda _: lambda: None)
    assert measure._plan(slow, [], 5.1, TIMING) is None
    assert measure._plan(quick, [], 4.9, TIMING).repetitions == 5
