"""latency: statistics over the repetitions, and the grade of trust."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.lib.timing.latency import HostLoad, Latency, trust

QUIET = HostLoad(foreign=0.0, steal=0.0)


@given(st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=40))
def test_statistics_are_those_of_numpy(values):
    latency = Latency(tuple(values))
    assert latency.count == len(values)
    assert latency.median == pytest.approx(np.median(values))
    assert latency.mean == pytest.approx(np.mean(values))
    assert latency.min == min(values)
    assert latency.p95 == pytest.approx(np.percentile(values, 95))
    assert latency.stdev == pytest.approx(np.std(values, ddof=1), abs=1e-9)
    assert latency.cv == pytest.approx(np.std(values, ddof=1) / np.mean(values), abs=1e-9)


def test_a_single_repetition_has_no_spread_and_little_trust():
    latency = Latency((5.0,))
    assert (latency.median, latency.mean, latency.min) == (5.0, 5.0, 5.0)
    assert (latency.stdev, latency.cv, latency.p95) == (None, None, None)
    found = trust(latency, QUIET)
    assert found.grade == "low"
    assert found.reasons == ("1 repetitions", "spread unknown")


def test_a_latency_of_no_repetition_is_refused():
    with pytest.raises(ValueError, match="at least one repetition"):
        Latency(())


def test_cpu_time_is_weighed_by_wall_time():
    assert Latency((1.0, 3.0), (4.0, 4.0)).cpu_per_real == 2.0
    assert Latency((1.0, 3.0)).cpu_per_real is None


def spread(cv: float, count: int = 10) -> Latency:
    """Repetitions around 1 ms with that coefficient of variation."""
    off = cv * ((count - 1) / count) ** 0.5
    return Latency((1 - off, 1 + off) * (count // 2))


@pytest.mark.parametrize(
    ("latency", "load", "grade", "reason"),
    [
        (spread(0.0), QUIET, "high", ""),
        (spread(0.0299), QUIET, "high", ""),
        (spread(0.0301), QUIET, "medium", "cv 3.0%"),
        (spread(0.0999), QUIET, "medium", "cv 10.0%"),
        (spread(0.1001), QUIET, "low", "cv 10.0%"),
        (Latency((1.0,) * 9), QUIET, "medium", "9 repetitions"),
        (Latency((1.0,) * 5), QUIET, "medium", "5 repetitions"),
        (Latency((1.0,) * 4), QUIET, "low", "4 repetitions"),
        (spread(0.0), HostLoad(0.05, 0.02), "high", ""),
        (spread(0.0), HostLoad(0.06, 0.0), "medium", "other processes took 6% of the CPUs"),
        (spread(0.0), HostLoad(0.20, 0.0), "medium", "other processes took 20% of the CPUs"),
        (spread(0.0), HostLoad(0.21, 0.0), "low", "other processes took 21% of the CPUs"),
        (spread(0.0), HostLoad(0.0, 0.03), "medium", "the hypervisor took 3% of the CPUs"),
        (spread(0.0), HostLoad(0.0, 0.11), "low", "the hypervisor took 11% of the CPUs"),
    ],
)
def test_trust_falls_at_each_bound_and_says_why(latency, load, grade, reason):
    found = trust(latency, load)
    assert (found.grade, "; ".join(found.reasons)) == (grade, reason)


def test_the_worst_of_several_reasons_gives_the_grade():
    found = trust(Latency((1.0,) * 9), HostLoad(foreign=0.5, steal=0.05))
    assert found.grade == "low"
    assert len(found.reasons) == 3
