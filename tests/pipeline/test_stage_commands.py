"""The stage commands run by hand, on models with unusual inputs and outputs."""

from __future__ import annotations

import json

import pytest

from scripts.iree import compile_cache
from tests.by_hand import ARGS_AND_KWARGS, KEYWORDS_OUT_OF_ORDER, Stages, ok

CHANGES_ITS_STATE = """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count += 1
        return x + self.count


def get_model():
    return M()


def get_dummy_input():
    return torch.randn(4)
"""

CASES = {
    "keywords-out-of-order": (KEYWORDS_OUT_OF_ORDER, {}, "torch", "text"),
    "args-and-kwargs": (ARGS_AND_KWARGS, {}, "linalg-on-tensors", "text"),
    "bytecode": (KEYWORDS_OUT_OF_ORDER, {"batch_size": 3}, "stablehlo", "bytecode"),
    "bf16": (ARGS_AND_KWARGS, {"dtype": "bf16"}, "stablehlo", "text"),
}
BY_HAND = "keywords-out-of-order"
"""Its commands run as a log has them, the others in forks, which save the imports."""


@pytest.mark.parametrize("case", CASES)
def test_a_model_goes_all_the_way_and_is_verified(case, environments, tmp_path):
    source, options, dialect, ir_format = CASES[case]
    stages = Stages(tmp_path, environments, source, options, fork=case != BY_HAND)
    ok(stages.reference())
    ok(stages.export(dialect, ir_format))
    is_bytecode = (tmp_path / "program.mlir").read_bytes().startswith(b"ML\xefR")
    assert is_bytecode == (ir_format == "bytecode")
    ok(stages.compile())
    measured = stages.measure()
    assert measured["verification"]["code"] == "PASS"


def test_what_one_user_has_compiled_another_takes_and_verifies(environments, tmp_path, monkeypatch):
    monkeypatch.setenv(compile_cache.FOLDER, str(tmp_path / "shared"))
    reports = []
    for user in ("first", "second"):
        (tmp_path / user).mkdir()
        stages = Stages(tmp_path / user, environments, KEYWORDS_OUT_OF_ORDER, {})
        ok(stages.reference())
        ok(stages.export("torch"))
        ok(stages.compile())
        assert stages.measure()["verification"]["code"] == "PASS"
        reports.append(json.loads((tmp_path / user / "report.json").read_text()))
    assert [report["cached"] for report in reports] == [False, True]
    assert (
        len({(tmp_path / user / "module.vmfb").read_bytes() for user in ("first", "second")}) == 1
    )


def test_tied_weights_are_stored_once_and_hidden_buffers_are_stored(environments, tmp_path):
    stages = Stages(tmp_path, environments, ARGS_AND_KWARGS, {})
    ok(stages.reference())
    signature = json.loads((tmp_path / "signature.json").read_text())
    names = [p["name"] for p in signature["parameters"]]
    assert names == ["first.weight", "first.bias", "second.bias", "hidden"]
    assert signature["aliases"] == {"second.weight": "first.weight"}


def test_a_program_that_changes_its_state_is_unsupported_and_says_which(environments, tmp_path):
    said = "the model changes count in place (BUFFER_MUTATION)"
    done = Stages(tmp_path, environments, CHANGES_ITS_STATE, {}).reference()
    assert (done.returncode, said in done.stderr) == (1, True), done.stderr
    # Eager gives the same twice where no output shows the state: only a program must not have it.
    unseen = CHANGES_ITS_STATE.replace("return x + self.count", "return x + 1")
    stages = Stages(tmp_path, environments, unseen, {})
    ok(stages.reference())
    done = stages.export("torch")
    assert (done.returncode, f"error: {said}" in done.stderr) == (3, True), done.stderr
