"""Calibration: fixed work on every thread, each time that it is asked for."""

import pytest

from scripts.lib.timing import calibration, hostload
from scripts.lib.timing.calibration import Calibrator
from scripts.lib.timing.hostload import HostWatch
from scripts.lib.timing.latency import HostLoad


def test_both_kernels_are_timed_each_time_on_every_thread(monkeypatch):
    monkeypatch.setattr(calibration, "SIGNAL", 4000)
    monkeypatch.setattr(calibration, "COPIED_BYTES", (2**20, 2**20))
    ran = []
    for name in ("_compute", "_copy"):
        kernel = getattr(Calibrator, name)

        def noted(self, number, passes, kernel=kernel, name=name):
            ran.append((name, number, passes))
            kernel(self, number, passes)

        monkeypatch.setattr(Calibrator, name, noted)
    with Calibrator(3) as calibrator:
        assert 0.99 < calibrator.resident_mb <= 1
        calibrator.take()
        calibrator.take()
    found = calibrator.result
    assert (found.threads, len(found.compute_s), len(found.memory_s)) == (3, 2, 2)
    assert min(found.compute_s + found.memory_s) > 0
    counted = [entry for entry in ran if entry[2] == calibration.PASSES]
    assert sorted(counted) == sorted(
        (name, number, calibration.PASSES)
        for name in ("_compute", "_copy")
        for number in range(3)
        for _ in range(2)
    )


@pytest.mark.parametrize(
    ("cores", "foreign", "steal"), [(64, 0.0938, 0.0016), (8, 0.75, 0.0125), (2, 1.0, 0.05)]
)
def test_foreign_load_is_a_share_of_the_cores_measured_on(monkeypatch, cores, foreign, steal):
    """Six busy neighbours on a machine of any size, for ten seconds."""
    samples = iter([(0.0, 0.0, 0.0, 0.0), (60.0 + 10.0 * cores, 1.0, 10.0 * cores, 10.0)])
    monkeypatch.setattr(HostWatch, "_sample", staticmethod(lambda: next(samples)))
    with HostWatch(cores) as watch:
        pass
    assert watch.load == HostLoad(foreign, steal)


def test_a_share_is_never_below_nothing():
    assert hostload.shares(-0.1, 0.0, 10.0) == HostLoad(0.0, 0.0)
