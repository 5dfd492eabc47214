"""ONNX Runtime and XLA: verified like every baseline, `unsupported` if they reject a program."""

from __future__ import annotations

import json

import pytest

from tests.by_hand import ARGS_AND_KWARGS, KEYWORDS_OUT_OF_ORDER, Stages, ok
from tests.checkouts import made_environments

NO_ONNX = """
class M(nn.Module):
    def forward(self, x):
        return torch.special.bessel_j0(x)


def get_model():
    return M()


def get_dummy_input():
    return torch.randn(4)
"""


@pytest.fixture(scope="module")
def environments(environments):
    """Those of the stages, and the runtimes' own."""
    return made_environments("onnxruntime", "xla-stablehlo")


@pytest.fixture
def make(environments, tmp_path):
    """A function that makes the reference of a model, and the stages that go on from it."""

    def made(source: str, options: dict | None = None) -> Stages:
        stages = Stages(tmp_path, environments, source, options or {})
        ok(stages.reference())
        return stages

    return made


def baseline(stages: Stages, env: str, runtime: str, **more):
    f = stages.folder
    return stages.run(
        env, "verify_baseline", name="m", model_file=stages.model, options=stages.options,
        runtime=runtime, weights=f / "weights.irpa", inputs=f / "inputs.npz",
        golden=f / "golden.npz", signature=f / "signature.json",
        out=f / "verification.json", **more,
    )  # fmt: skip


def on_xla(stages: Stages):
    program = stages.folder / "program.mlir"
    return baseline(stages, "xla-stablehlo", "xla_stablehlo", program=program)


def measured(stages: Stages) -> dict:
    return json.loads((stages.folder / "verification.json").read_text())


@pytest.mark.parametrize(
    ("source", "options"),
    [(KEYWORDS_OUT_OF_ORDER, {"batch_size": 3}), (ARGS_AND_KWARGS, {})],
    ids=["keywords", "unused-and-tied"],
)
def test_both_are_verified_on_the_archives_weights_and_timed(make, source, options):
    stages = make(source, options)
    ok(stages.export("stablehlo", ir_format="bytecode"))
    ok(on_xla(stages))
    found = measured(stages)
    assert found["verification"]["code"] == "PASS"
    assert found["compile_s"] > 0
    assert found["versions"].keys() == {"jax", "jaxlib"}
    ok(baseline(stages, "onnxruntime", "onnxruntime"))
    found = measured(stages)
    assert found["verification"]["code"] == "PASS"
    assert found["compile_s"] > 0
    assert found["versions"].keys() == {"onnxruntime", "onnx", "onnxscript", "torch"}
    assert sorted(path.name for path in stages.folder.glob("baseline-*")) == []


def test_another_archive_gives_other_results_on_both(make):
    stages = make(ARGS_AND_KWARGS)
    ok(stages.export("stablehlo"))
    archive = stages.folder / "weights.irpa"
    data = bytearray(archive.read_bytes())
    end = len(data.rstrip(b"\0"))
    data[end - 16 : end] = bytes(16)  # the end of its last weight
    archive.write_bytes(data)
    for done in (on_xla(stages), baseline(stages, "onnxruntime", "onnxruntime")):
        assert done.returncode == 4, done.stderr[-2000:]
        assert measured(stages)["verification"]["code"] == "FAIL"


def test_bf16_runs_on_xla_and_is_unsupported_by_onnx_runtime_which_names_the_operator(make):
    stages = make(ARGS_AND_KWARGS, {"dtype": "bf16"})
    ok(stages.export("stablehlo"))
    ok(on_xla(stages))
    assert measured(stages)["verification"]["code"] == "PASS"
    done = baseline(stages, "onnxruntime", "onnxruntime")
    assert done.returncode == 3, done.stderr[-2000:]
    assert "error: ONNX Runtime: NotImplemented: " in done.stderr
    assert "Could not find an implementation for Gemm" in done.stderr


def test_what_one_of_them_does_not_take_is_unsupported_and_says_why(make):
    stages = make(NO_ONNX)
    done = baseline(stages, "onnxruntime", "onnxruntime")
    assert done.returncode == 3, done.stderr[-2000:]
    assert "error: torch.onnx.export: " in done.stderr
    assert "bessel_j0" in done.stderr.splitlines()[-1]
    ok(make(ARGS_AND_KWARGS).export("torch"))
    done = on_xla(stages)
    assert done.returncode == 3, done.stderr[-2000:]
    assert "is no operation of StableHLO" in done.stderr
