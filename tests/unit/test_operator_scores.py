"""BackendBench's criterion for results, and its scores, compared with values that were computed by hand."""

import math

import numpy as np
import pytest

from scripts.core.tensors import TensorType
from scripts.measure.verify.verify import Expected
from scripts.tools.operators.problems import scores
from scripts.tools.operators.problems.scores import Result

SUITE = [
    Result("aten.add.Tensor", True, 2.0),
    Result("aten.add.Tensor", True, 8.0),  # geometric mean 4
    Result("aten.mm.default", True, 4.0),
    Result("aten.mm.default", False, 100.0),  # wrong: counts as 1; geometric mean 2
    Result("aten.exp.default", True, 0.5),
    Result("aten.sin.default", False),
]


def test_each_operator_has_its_share_and_its_geometric_mean():
    found = {s.op: (s.problems, s.passed, s.correctness, s.performance) for s in scores.of_results(SUITE).operators}  # fmt: skip
    assert found == {
        "aten.add.Tensor": (2, 2, 1.0, pytest.approx(4.0)),
        "aten.exp.default": (1, 1, 1.0, pytest.approx(0.5)),
        "aten.mm.default": (2, 1, 0.5, pytest.approx(2.0)),
        "aten.sin.default": (1, 0, 0.0, 1.0),
    }


def test_a_suite_has_the_means_over_its_operators():
    found = scores.of_results(SUITE)
    assert found.correctness == pytest.approx((1 + 1 + 0.5 + 0) / 4)
    assert found.fully_correct == pytest.approx(2 / 4)
    assert found.performance == pytest.approx((4 * 2 * 0.5 * 1) ** (1 / 4))
    # Only add is fully correct and above p; mm is fast enough but not fully correct.
    assert (found.p, found.perf_at_p) == (1.0, pytest.approx(1 / 4))
    assert scores.of_results(SUITE, p=0.25).perf_at_p == pytest.approx(2 / 4)
    assert scores.of_results(SUITE, p=4.5).perf_at_p == 0


def test_a_correct_problem_without_a_time_counts_as_eager():
    (only,) = scores.of_results([Result("aten.add.Tensor", True)]).operators
    assert (only.performance, only.correctness) == (1.0, 1.0)


def test_nothing_has_no_score():
    with pytest.raises(ValueError, match="no result to score"):
        scores.of_results([])


@pytest.mark.parametrize(
    ("got", "passes"),
    [
        (100.0, True),
        (101.0, True),  # |100 - 101| <= 0.01 + 0.01 × 101
        (101.03, False),
        (99.1, True),
        (98.98, False),  # the relative part uses the output, not eager's result
        (math.nan, False),
    ],
)
def test_correct_is_what_backendbench_takes_for_it(got, passes):
    golden, output = np.array([100.0], np.float32), np.array([got], np.float32)
    assert scores.is_correct([output], [golden], ["float32"]) == passes


GOLDEN = np.array([0.0, 1.0, -200.0], np.float32)


def judged(*outputs: np.ndarray) -> dict:
    types = [TensorType(f"output {n}", GOLDEN.shape, "float32") for n in range(len(outputs))]
    expected = Expected(types, [GOLDEN] * len(outputs), None, True, "f32")
    return scores.judged(outputs, expected)


@pytest.mark.parametrize(
    ("outputs", "is_correct", "absolute", "relative"),
    [
        ([GOLDEN], True, 0.0, 0.0),
        ([GOLDEN + np.float32([0.009, 0, 0])], True, 0.009, 0.0),
        ([GOLDEN + np.float32([0, 0, 1.5])], True, 1.5, 1.5 / 200),
        ([GOLDEN, GOLDEN + np.float32([0, 0.5, 0])], False, 0.5, 0.5),
        ([np.float32([0.0, np.nan, -200.0])], False, 0.0, 0.0),
        ([GOLDEN[:2]], False, None, None),
        ([GOLDEN.astype(np.float64)], False, 0.0, 0.0),
    ],
)
def test_the_criterion_and_the_largest_errors(outputs, is_correct, absolute, relative):
    found = judged(*outputs)
    assert found["backendbench_correct"] is is_correct
    for key, value in (("max_abs_error", absolute), ("max_rel_error", relative)):
        assert found[key] == (value if value is None else pytest.approx(value, rel=1e-4))
