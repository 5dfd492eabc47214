"""Other runtimes for CPUs: verified and timed like every baseline, `unsupported` if they reject a program."""

from __future__ import annotations

import json

import pytest

from tests.by_hand import ARGS_AND_KWARGS, Stages, ok
from tests.checkouts import (
    ON_CPU,
    Checkout,
    in_environment,
    is_compared,
    keep_models,
    made_environments,
    params,
    shipped,
)

VERSIONS = {
    "onnxruntime": {"onnxruntime", "onnx", "onnxscript", "torch"},
    "openvino": {"openvino", "torch"},
    "executorch": {"executorch", "torch"},
    "litert": {"litert_torch", "ai_edge_litert", "torch"},
}
"""What each runtime that converts a model reports. Its environment has the same name."""
LARGE = ("executorch", "litert")
"""Their environments have a PyTorch of their own: they run before a release."""
NAMES = params(VERSIONS, LARGE)
BESSEL, AIRY = "bessel_j0", "airy_ai"
NO_RULES = f"""
class M(nn.Module):
    def forward(self, x):
        return torch.special.{BESSEL}(x) + torch.special.{AIRY}(x)


def get_model():
    return M()


def get_dummy_input():
    return torch.randn(4)
"""

ALL_KINDS_OF_INPUTS = """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("hidden", torch.arange(4.0), persistent=False)

    def forward(self, x, unused, mask=None, offset=None):
        y = self.second(self.first(x)) + self.hidden
        return {"masked": torch.where(mask, y, 0.0), "rest": (y + offset, offset - 1)}


def get_model():
    return M()


def get_dummy_input(batch_size: int = 2):
    shape = (batch_size, 4)
    # Keywords not in the order of forward().
    keywords = {"offset": torch.randint(0, 9, shape), "mask": torch.rand(shape) > 0.5}
    return (torch.randn(shape), torch.randn(2)), keywords
"""


@pytest.fixture(scope="module")
def runtimes(selected) -> list[str]:
    return selected(VERSIONS, LARGE)


@pytest.fixture(scope="module")
def with_runtimes(environments, runtimes):
    """Environments of the stages, and the runtimes' own."""
    return made_environments(*runtimes)


@pytest.fixture(scope="module")
def ran(make_checkout, with_runtimes, runtimes) -> Checkout:
    """A run of conv that times all of them in turns."""
    baselines = shipped("baselines", "eager", *runtimes)
    baselines["onnxruntime"].pop("default")  # of ONNX files alone
    checkout = make_checkout("runtimes", models={}, targets=ON_CPU, baselines=baselines)
    keep_models(checkout, "conv")
    line = ("--cores", "2", "results/latency.csv", "--config", "frontends=torchmlir-torch")
    checkout.snakemake(*line)
    return checkout


@pytest.mark.parametrize("runtime", NAMES)
def test_conv_is_verified_and_timed_in_turns_and_every_row_compared_with_it(ran, runtimes, runtime):
    rows = {row["target"] or row["runtime"]: row for row in ran.rows()}
    assert rows.keys() == {"llvm-cpu", "eager", *runtimes}
    row = rows[runtime]
    assert (row["status"], row["verification_code"]) == ("ok", "PASS"), row["detail"]
    assert float(row["compile_s"]) > 0
    assert float(row["max_abs_error"]) < 1e-5
    for one in rows.values():
        assert one["threads"] == row["threads"]
        ratio = float(one["latency_ms"]) / float(row["latency_ms"])
        assert is_compared(one, f"speedup_vs_{runtime}")
        if one[f"speedup_vs_{runtime}"]:
            assert float(one[f"speedup_vs_{runtime}"]) == pytest.approx(1 / ratio, rel=0.2)
    assert float(row[f"speedup_vs_{runtime}"]) == 1


@pytest.mark.parametrize("runtime", NAMES)
def test_a_model_is_converted_once_for_all_processes(ran, runtime):
    cell = f"conv/{runtime}/eval"
    [made] = (ran.path / f"results/baseline/{cell}/cache").glob("converted")
    verified = ran.path / f"results/baseline/{cell}/verification.json"
    assert made.stat().st_mtime <= verified.stat().st_mtime


def test_their_kernels_are_mapped_to_the_modules_of_the_model(ran, runtimes):
    ran.snakemake("--cores", "2", "profile", "--config", "frontends=torchmlir-torch")
    for runtime in [name for name in runtimes if name != "litert"]:
        words = ("conv/torchmlir-torch/llvm-cpu", "--against", runtime, "--json")
        account = json.loads(ran.vmfbench("why", *words))
        regions = {region["name"]: region for region in account["regions"]}
        for name in ("0", "2"):  # the convolutions
            assert regions[name]["iree_ms"] > 0
            assert regions[name]["other_ms"] > 0, runtime
        assert abs(account["terms"].get("not mapped", {"ms": 0})["ms"]) < 0.1 * account["call_ms"][runtime]  # fmt: skip


@pytest.mark.parametrize("runtime", NAMES)
def test_as_many_threads_compute_as_are_given(with_runtimes, runtime):
    """One thread: two might be the choice of the runtime, on two cores."""
    found = in_environment(
        with_runtimes / runtime / "bin/python", "threads_in_runtime", runtime, 1, fork=False
    )
    assert found == {"computing": 1, "right": True}


@pytest.fixture
def make(with_runtimes, tmp_path):
    """A function that makes the reference of a model, and the stages that go on from it."""

    def made(source: str, options: dict | None = None) -> Stages:
        stages = Stages(tmp_path, with_runtimes, source, options or {})
        ok(stages.reference())
        return stages

    return made


def baseline(stages: Stages, env: str, runtime: str, **more):
    f = stages.folder
    return stages.run(
        env, "verify_baseline", name="m", model_file=stages.model, options=stages.options,
        runtime=runtime, weights=f / "weights.irpa", inputs=f / "inputs.npz",
        golden=f / "golden.npz", signature=f / "signature.json", **more,
    )  # fmt: skip


def on_xla(stages: Stages):
    program = stages.folder / "program.mlir"
    return baseline(stages, "torch-mlir", "xla_stablehlo", program=program)


def measured(stages: Stages) -> dict:
    return json.loads((stages.folder / "verification.json").read_text())


def test_all_are_verified_on_the_archives_weights_and_on_no_others(make, runtimes):
    stages = make(ALL_KINDS_OF_INPUTS, {"batch_size": 3})
    # From now on, the file makes a model with other weights than those of the archive.
    text = stages.model.read_text()
    stages.model.write_text(
        text.replace("    return M()", "    torch.manual_seed(7)\n    return M()")
    )
    ok(stages.export("stablehlo", ir_format="bytecode"))
    ok(on_xla(stages))
    found = measured(stages)
    assert found["verification"]["code"] == "PASS"
    assert found["compile_s"] > 0
    assert found["versions"].keys() == {"python", "jax", "jaxlib"}
    for runtime in runtimes:
        ok(baseline(stages, runtime, runtime))
        found = measured(stages)
        assert found["verification"]["code"] == "PASS"
        assert found["compile_s"] > 0
        assert found["versions"].keys() == {"python", *VERSIONS[runtime]}
    assert sorted(path.name for path in stages.folder.glob("baseline-*")) == []


def test_bf16_runs_on_xla_and_is_unsupported_by_others_which_say_why(make):
    stages = make(ARGS_AND_KWARGS, {"dtype": "bf16"})
    ok(stages.export("stablehlo"))
    ok(on_xla(stages))
    assert measured(stages)["verification"]["code"] == "PASS"
    done = baseline(stages, "onnxruntime", "onnxruntime")
    assert done.returncode == 3, done.stderr[-2000:]
    assert "error: ONNX Runtime: NotImplemented: " in done.stderr
    assert "Could not find an implementation for Gemm" in done.stderr
    done = baseline(stages, "openvino", "openvino")
    assert done.returncode == 3, done.stderr[-2000:]
    said = "error: openvino runs models in float32, and first.weight is of bfloat16"
    assert done.stderr.splitlines()[-1] == said


def test_what_one_of_them_does_not_take_is_unsupported_and_names_the_operators(make, runtimes):
    stages = make(NO_RULES)
    named = {}
    for runtime in runtimes:
        done = baseline(stages, runtime, runtime)
        assert done.returncode == 3, done.stderr[-2000:]
        said = done.stderr.splitlines()[-1]
        assert said.startswith("error: ")
        named[runtime] = [one for one in (BESSEL, AIRY) if one in said]
    assert all(named.values())
    for runtime in {"openvino", "executorch"} & named.keys():
        assert named[runtime] == [BESSEL, AIRY], "all of them"
