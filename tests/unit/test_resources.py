"""resources: what a stage requests from a cluster in each attempt."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.config.stages import STAGES as DECLARED
from scripts.run import resources

STAGES = sorted(name for name, stage in DECLARED.items() if stage.need)
LIMITS = st.fixed_dictionaries(
    {"timeout_s": st.floats(1, 1e5)}, optional={"memory_mb": st.floats(100, 1e6)}
)
WEIGHTS = st.none() | st.floats(0, 5e5)


@pytest.mark.parametrize("stage", STAGES)
@given(limit=LIMITS, weights_mb=WEIGHTS, budget_s=st.floats(0, 600))
def test_each_attempt_has_no_less_and_the_last_has_what_the_limits_allow(
    stage, limit, weights_mb, budget_s
):
    attempts = range(1, resources.ATTEMPTS + 2)
    asks = [
        resources.request(DECLARED[stage].need, limit, weights_mb, n, budget_s) for n in attempts
    ]
    for ask in asks:
        assert 0 < ask.timeout_s <= limit["timeout_s"]
        assert ask.memory_mb <= limit.get("memory_mb", float("inf")) + 1
        # The job outlives the stage, and holds more: it is the supervisor that stops it.
        assert ask.runtime * 60 >= ask.timeout_s + resources.OVERHEAD_S
        assert ask.mem_mb >= ask.memory_mb + resources.OVERHEAD_MB
    for ask, following in itertools.pairwise(asks):
        assert following.memory_mb >= ask.memory_mb
        assert following.timeout_s >= ask.timeout_s
        assert ask.more_memory <= (following.memory_mb > ask.memory_mb)
        assert ask.more_time <= (following.timeout_s > ask.timeout_s)
    last = asks[resources.ATTEMPTS - 1]
    assert (last.more_memory, last.more_time, last.timeout_s) == (0, 0, limit["timeout_s"])
    assert last.memory_mb >= int(limit.get("memory_mb", 0))


@pytest.mark.parametrize("stage", STAGES)
@given(st.floats(0, 5e5), st.floats(1, 5e5))
def test_larger_weights_ask_for_no_less(stage, weights_mb, more):
    limit = {"timeout_s": 1e9}
    small, large = (
        resources.request(DECLARED[stage].need, limit, w, 1)
        for w in (weights_mb, weights_mb + more)
    )
    assert small.memory_mb <= large.memory_mb
    assert small.timeout_s <= large.timeout_s


@pytest.mark.parametrize("stage", [name for name in STAGES if DECLARED[name].need.memory])
def test_what_holds_the_weights_asks_for_them(stage):
    ask = resources.request(DECLARED[stage].need, {"timeout_s": 1e9}, 13000, 1)
    assert ask.memory_mb > 13000


def test_on_ones_own_machine_a_stage_has_its_limits_and_no_second_attempt():
    ask = resources.within_limits(4096, 90)
    assert ask == resources.Ask(4096, 90, 4096, 2, 0, 0)


@pytest.mark.parametrize("limit", [{"timeout_s": 60}, {"timeout_s": 60, "memory_mb": 4000}])
def test_a_batch_asks_for_more_time_in_each_attempt_and_keeps_the_limit_of_a_problem(limit):
    need = DECLARED["operator_compile"].need
    asks = [resources.of_batch(need, limit, attempt) for attempt in (1, 2, 3, 4)]
    assert {ask.timeout_s for ask in asks} == {60}
    assert asks[0].runtime * 60 >= need.base_s
    assert asks[0].runtime < asks[1].runtime < asks[2].runtime == asks[3].runtime
    assert all(ask.mem_mb > ask.memory_mb for ask in asks)
    assert asks[2].memory_mb == limit.get("memory_mb", 4 * need.base_mb)
    assert {(ask.more_memory, ask.more_time) for ask in asks} == {(0, 0)}
