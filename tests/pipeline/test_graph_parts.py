"""The wrong operator of a model, found among the parts of its graph and lowered by torch-mlir."""

from __future__ import annotations

import pytest

from tests.checkouts import in_environment


@pytest.fixture(scope="module")
def found(environments) -> dict:
    return in_environment(environments / "torch-mlir/bin/python", "graph_parts_in_torch")


def test_the_operator_with_other_values_is_found_by_itself_with_small_inputs(found):
    wrong = found["wrong"]
    assert wrong["operators"] == ["aten.tanh.default"]
    assert wrong["shapes"] == [[1, 1]]
    assert wrong["wrong"] == 2  # it, and the product that uses it
    assert wrong["files"] == ["ISSUE.md", "expected_0.npy", "input_0.npy", "run_wrong.sh", "wrong.json", "wrong.mlir", "wrong.py"]  # fmt: skip


def test_the_commands_of_a_wrong_operator_show_the_difference(found):
    assert found["wrong"]["returncode"] != 0
    assert "[FAILED]" in found["wrong"]["said"]


def test_the_issue_of_a_wrong_operator_is_for_the_tracker_of_the_frontend(found):
    issue = found["wrong"]["issue"]
    assert issue.startswith(
        "<!-- Tracker: https://github.com/llvm/torch-mlir/issues -->\n\n# [stablehlo] `aten.tanh.default` computes wrong values"
    )
    assert "stablehlo.sine" in issue
    assert "torch.ops.aten.tanh.default(input_0)" in issue
    assert "output_type=fx.OutputType.STABLEHLO" in found["script"]


def test_a_frontend_that_is_right_has_no_wrong_operator(found):
    assert found["right"] == "at O0, the values of all 7 nodes are those of eager mode"


def test_each_node_is_tried_if_the_program_with_all_values_does_not_compile(found):
    assert found["alone"] == {"node": "tanh", "wrong": None}
