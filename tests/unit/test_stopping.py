"""stopping: iterations, repetitions and warm-up that the rule comes to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.lib.stopping import StoppingRule, plan

seconds = st.floats(1e-3, 1e3)
rules = st.builds(StoppingRule, st.integers(1, 1000), seconds, st.floats(0, 1e3), seconds)
calls = st.floats(0, 1e4)


@given(rules, calls)
def test_a_plan_keeps_the_rule_and_its_budget(rule, call_s):
    chosen = plan(rule, call_s)
    repetition = chosen.iterations * call_s
    assert chosen.iterations >= 1
    assert 1 <= chosen.repetitions <= rule.repetitions
    assert chosen.repetitions == 1 or chosen.repetitions * repetition <= rule.budget_s * (1 + 1e-9)
    assert 0 <= chosen.warmup_s <= rule.budget_s


@given(rules, st.floats(1e-6, 1e4))
def test_a_repetition_lasts_at_least_as_long_as_the_rule_says(rule, call_s):
    assert plan(rule, call_s).iterations * call_s >= rule.repetition_s * (1 - 1e-9)


@pytest.mark.parametrize(
    ("call_s", "iterations", "repetitions"),
    [
        (0.001, 100, 20),  # as many calls as fill a repetition
        (0.1, 1, 20),
        (1.0, 1, 10),  # the budget holds ten
        (60.0, 1, 1),  # not even one, and it is made all the same
    ],
)
def test_iterations_fill_a_repetition_and_the_budget_cuts_repetitions(
    call_s, iterations, repetitions
):
    rule = StoppingRule(repetitions=20, repetition_s=0.1, warmup_s=0.5, budget_s=10)
    chosen = plan(rule, call_s)
    assert (chosen.iterations, chosen.repetitions) == (iterations, repetitions)
