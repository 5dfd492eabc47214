"""measurement: a latency if and only if the verification passed."""

import json

import pytest

from scripts.lib.timing.calibration import Calibration
from scripts.lib.timing.latency import HostLoad, Latency
from scripts.lib.timing.measurement import Measurement, Run, Verification


def measurement(code: str, latency: Latency | None, **more) -> Measurement:
    verification = Verification(code, "", 0.0, 0.0, 0.0, 1e-3)
    return Measurement(
        device="local-task",
        device_name="A CPU",
        threads=4,
        verification=verification,
        load_ms=1.0,
        first_call_ms=2.0,
        latency=latency,
        host=HostLoad(0.5, 0.0) if latency else None,
        **more,
    )


@pytest.mark.parametrize("code", ["FAIL", "NONDETERMINISTIC_EAGER_RUN"])
def test_a_latency_without_a_passed_verification_is_refused(code):
    with pytest.raises(ValueError, match=f"verification {code} with a latency"):
        measurement(code, Latency((1.0,)))


def test_a_passed_verification_without_a_latency_is_refused():
    with pytest.raises(ValueError, match="verification PASS without a latency"):
        measurement("PASS", None)


def test_all_repetitions_and_what_trust_in_them_is_made_of_are_written(tmp_path):
    latency = Latency((1.0, 1.5), (2.0, 2.5), 2, (0.5, 1.5, 1.5, 1.5))
    calibration = Calibration("A CPU", 2, (0.02, 0.03), (0.01, 0.01))
    measurement("PASS", latency, started=5.0, calibration=calibration).write(tmp_path / "m.json")
    written = json.loads((tmp_path / "m.json").read_text())
    assert written["latency"] == {
        "values_ms": [1.0, 1.5],
        "cpu_ms": [2.0, 2.5],
        "iterations": 2,
        "call_ms": [0.5, 1.5, 1.5, 1.5],
    }
    assert written["host"] == {"foreign": 0.5, "steal": 0.0}
    assert (written["started"], written["calibration"]["compute_s"]) == (5.0, [0.02, 0.03])


def test_a_failed_verification_is_written_without_latency(tmp_path):
    measurement("FAIL", None).write(tmp_path / "m.json")
    written = json.loads((tmp_path / "m.json").read_text())
    assert written["latency"] is None


def test_every_run_is_written_with_what_its_runtime_accounts_for(tmp_path):
    runs = (Run(0.5, 1, 0.1, 0.3, 2, 0.05, 1), Run(0.014, 7))
    measurement("PASS", Latency((2.0,)), runs=runs, device_memory_mb=12.5).write(
        tmp_path / "m.json"
    )
    written = json.loads((tmp_path / "m.json").read_text())
    keys = ["total_s", "iterations", "trace_s", "compile_s", "compile_count", "execute_s", "execute_count"]  # fmt: skip
    assert [list(run) for run in written["runs"]] == [keys, keys]
    assert [list(run.values()) for run in written["runs"]] == [
        [0.5, 1, 0.1, 0.3, 2, 0.05, 1],
        [0.014, 7, None, None, None, None, None],
    ]
    assert (written["device_memory_mb"], written["profile"]) == (12.5, None)


def test_the_tolerance_that_decided_is_written_with_the_verdict(tmp_path):
    measurement("FAIL", None).write(tmp_path / "m.json")
    verification = json.loads((tmp_path / "m.json").read_text())["verification"]
    assert (verification["tol"], verification["cosine"]) == (1e-3, False)
