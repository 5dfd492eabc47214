"""The stage commands run by hand, on models with unusual inputs: IREE, ONNX Runtime and XLA are verified on the same files,
and what one of them does not take is `unsupported`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.by_hand import ARGS_AND_KWARGS, KEYWORDS_OUT_OF_ORDER, Stages, ok
from tests.checkouts import made_environments

CHANGES_ITS_STATE_UNSEEN = """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count += 1
        return x + 1


def get_model():
    return M()


def get_dummy_input():
    return torch.randn(4)
"""
NO_ONNX = """
class M(nn.Module):
    def forward(self, x):
        return torch.special.bessel_j0(x)


def get_model():
    return M()


def get_dummy_input():
    return torch.randn(4)
"""
CASES = {
    "keywords": (KEYWORDS_OUT_OF_ORDER, {"batch_size": 3}, "bytecode"),
    "unused-and-tied": (ARGS_AND_KWARGS, {}, "text"),
    "bf16": (ARGS_AND_KWARGS, {"dtype": "bf16"}, "text"),
}
"""Models with their options and the form of their program in StableHLO."""


@pytest.fixture(scope="module")
def environments(environments) -> Path:
    """Those of the stages, and the runtimes' own."""
    return made_environments("onnxruntime", "xla-stablehlo")


@pytest.fixture(scope="module")
def exported(environments, tmp_path_factory) -> Callable[[str], Stages]:
    """A function that makes the reference and the program of a case, once."""
    ready: dict[str, Stages] = {}

    def export(case: str) -> Stages:
        if case not in ready:
            source, options, ir_format = CASES[case]
            ready[case] = Stages(tmp_path_factory.mktemp(case), environments, source, options)
            ok(ready[case].reference())
            ok(ready[case].export("stablehlo", ir_format))
        return ready[case]

    return export


def run_baseline(stages: Stages, env: str, runtime: str, **more) -> CompletedProcess:
    f = stages.folder
    return stages.run(
        env, "verify_baseline", name="m", model_file=stages.model, options=stages.options,
        runtime=runtime, weights=f / "weights.irpa", inputs=f / "inputs.npz",
        golden=f / "golden.npz", signature=f / "signature.json",
        out=f / "verification.json", **more,
    )  # fmt: skip


def on_onnx_runtime(stages: Stages) -> CompletedProcess:
    return run_baseline(stages, "onnxruntime", "onnxruntime")


def on_xla(stages: Stages) -> CompletedProcess:
    program = stages.folder / "program.mlir"
    return run_baseline(stages, "xla-stablehlo", "xla_stablehlo", program=program)


def measured(stages: Stages) -> dict:
    return json.loads((stages.folder / "verification.json").read_text())


@pytest.mark.parametrize("case", ["keywords", "bf16"])
def test_a_model_goes_all_the_way_to_iree_and_is_verified(case, exported):
    stages = exported(case)
    is_bytecode = (stages.folder / "program.mlir").read_bytes().startswith(b"ML\xefR")
    assert is_bytecode == (case == "keywords")
    ok(stages.compile())
    assert stages.measure()["verification"]["code"] == "PASS"


@pytest.mark.parametrize(
    ("case", "run", "versions"),
    [
        ("keywords", on_xla, {"jax", "jaxlib"}),
        ("unused-and-tied", on_xla, {"jax", "jaxlib"}),
        ("bf16", on_xla, {"jax", "jaxlib"}),
        ("keywords", on_onnx_runtime, {"onnxruntime", "onnx", "onnxscript", "torch"}),
        ("unused-and-tied", on_onnx_runtime, {"onnxruntime", "onnx", "onnxscript", "torch"}),
    ],
)
def test_another_runtime_is_verified_on_the_archives_weights_and_timed(
    exported, case, run, versions
):
    stages = exported(case)
    ok(run(stages))
    written = measured(stages)
    assert written["verification"]["code"] == "PASS"
    assert written["compile_s"] > 0
    assert written["versions"].keys() == versions
    assert list(stages.folder.glob("baseline-*")) == []


def test_tied_weights_are_stored_once_and_hidden_buffers_are_stored(exported):
    signature = json.loads((exported("unused-and-tied").folder / "signature.json").read_text())
    names = [p["name"] for p in signature["parameters"]]
    assert names == ["first.weight", "first.bias", "second.bias", "hidden"]
    assert signature["aliases"] == {"second.weight": "first.weight"}


def test_another_archive_gives_other_results_on_both(exported, environments, tmp_path):
    shutil.copytree(exported("unused-and-tied").folder, tmp_path, dirs_exist_ok=True)
    stages = Stages(tmp_path, environments, ARGS_AND_KWARGS, {})
    archive = tmp_path / "weights.irpa"
    data = bytearray(archive.read_bytes())
    end = len(data.rstrip(b"\0"))
    data[end - 16 : end] = bytes(16)  # the end of its last weight
    archive.write_bytes(data)
    for done in (on_xla(stages), on_onnx_runtime(stages)):
        assert done.returncode == 4, done.stderr[-2000:]
        assert measured(stages)["verification"]["code"] == "FAIL"


def test_onnx_runtime_names_the_operator_that_it_has_not_in_bf16(exported):
    done = on_onnx_runtime(exported("bf16"))
    assert done.returncode == 3, done.stderr[-2000:]
    assert "error: ONNX Runtime: NotImplemented: " in done.stderr
    assert "Could not find an implementation for Gemm" in done.stderr


def test_what_the_export_to_onnx_does_not_take_is_unsupported_and_says_why(environments, tmp_path):
    stages = Stages(tmp_path, environments, NO_ONNX, {})
    ok(stages.reference())
    done = on_onnx_runtime(stages)
    assert done.returncode == 3, done.stderr[-2000:]
    assert "error: torch.onnx.export: " in done.stderr
    assert "bessel_j0" in done.stderr.splitlines()[-1]


def test_a_program_of_another_dialect_is_unsupported_by_xla(exported, environments, tmp_path):
    shutil.copytree(exported("unused-and-tied").folder, tmp_path, dirs_exist_ok=True)
    stages = Stages(tmp_path, environments, ARGS_AND_KWARGS, {})
    ok(stages.export("torch"))
    done = on_xla(stages)
    assert done.returncode == 3, done.stderr[-2000:]
    assert "is no operation of StableHLO" in done.stderr


def test_a_program_that_changes_its_state_is_unsupported_and_says_which(environments, tmp_path):
    """Eager gives the same twice where no output shows the state: only a program must not have it."""
    stages = Stages(tmp_path, environments, CHANGES_ITS_STATE_UNSEEN, {})
    ok(stages.reference())
    done = stages.export("torch")
    said = "error: the model changes count in place (BUFFER_MUTATION)"
    assert (done.returncode, said in done.stderr) == (3, True), done.stderr
