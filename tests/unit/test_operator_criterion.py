"""criterion: results of operator problems by BackendBench's criterion, with their errors."""

import numpy as np
import pytest

from scripts.core.tensors import TensorType
from scripts.features.operators.problems import scores
from scripts.verify.verify import Expected

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
