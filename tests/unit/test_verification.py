"""verification: what a verification has found out, as it is written."""

import json

from scripts.measure.timing.calls import Run
from scripts.measure.verify.verification import Verification, Verified


def written(tmp_path, code: str = "PASS", **more) -> dict:
    Verified(
        device="local-task",
        device_name="A CPU",
        threads=4,
        verification=Verification(code, "", 0.0, 0.0, 0.0, 1e-3),
        load_ms=1.0,
        first_call_ms=2.0,
        **more,
    ).write(tmp_path / "v.json")
    return json.loads((tmp_path / "v.json").read_text())


def test_every_run_is_written_with_what_its_runtime_accounts_for(tmp_path):
    runs = (Run(0.5, 1, 0.1, 0.3, 2, 0.05, 1), Run(0.014, 7))
    found = written(tmp_path, runs=runs, device_memory_mb=12.5)
    keys = ["total_s", "iterations", "trace_s", "compile_s", "compile_count", "execute_s", "execute_count"]  # fmt: skip
    assert [list(run) for run in found["runs"]] == [keys, keys]
    assert [list(run.values()) for run in found["runs"]] == [
        [0.5, 1, 0.1, 0.3, 2, 0.05, 1],
        [0.014, 7, None, None, None, None, None],
    ]
    assert (found["device_memory_mb"], found["profile"]) == (12.5, None)


def test_wrong_results_are_written_with_the_tolerance_that_decided(tmp_path):
    verification = written(tmp_path, "FAIL")["verification"]
    assert (verification["code"], verification["tol"], verification["cosine"]) == ("FAIL", 1e-3, False)  # fmt: skip
