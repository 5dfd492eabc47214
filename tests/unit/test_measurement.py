"""measurement: a latency if and only if the verification passed."""

import json

import pytest

from scripts.lib.latency import HostLoad, Latency
from scripts.lib.measurement import Measurement, Verification


def measurement(code: str, latency: Latency | None) -> Measurement:
    verification = Verification(code, "", 0.0, 0.0, 0.0, 1e-3, 1e-3)
    return Measurement(
        device="local-task",
        device_name="A CPU",
        threads=4,
        verification=verification,
        load_ms=1.0,
        first_call_ms=2.0,
        latency=latency,
        host=HostLoad(0.5, 0.0) if latency else None,
    )


@pytest.mark.parametrize("code", ["FAIL", "NONDETERMINISTIC_EAGER_RUN"])
def test_a_latency_without_a_passed_verification_is_refused(code):
    with pytest.raises(ValueError, match=f"verification {code} with a latency"):
        measurement(code, Latency((1.0,)))


def test_a_passed_verification_without_a_latency_is_refused():
    with pytest.raises(ValueError, match="verification PASS without a latency"):
        measurement("PASS", None)


def test_all_repetitions_and_the_trust_in_them_are_written(tmp_path):
    measurement("PASS", Latency((1.0, 1.5), (2.0, 2.5), 7)).write(tmp_path / "m.json")
    written = json.loads((tmp_path / "m.json").read_text())
    assert written["latency"] == {"values_ms": [1.0, 1.5], "cpu_ms": [2.0, 2.5], "iterations": 7}
    assert written["trust"]["grade"] == "low"
    assert "other processes took 50% of the CPUs" in written["trust"]["reasons"]


def test_a_failed_verification_is_written_without_latency_or_trust(tmp_path):
    measurement("FAIL", None).write(tmp_path / "m.json")
    written = json.loads((tmp_path / "m.json").read_text())
    assert written["latency"] is None
    assert "trust" not in written
