"""The stage commands by hand, on models whose inputs and outputs are out of the ordinary."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.checkouts import ROOT

HEAD = '"""A model for one test."""\nimport torch\nfrom torch import nn\n\n'

KEYWORDS_OUT_OF_ORDER = """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(8))

    def forward(self, x, mask=None, offset=None):
        return {"masked": torch.where(mask, x * self.scale, 0.0), "rest": (x + offset, offset - 1)}


def get_model():
    return M()


def get_dummy_input(batch_size: int = 2):
    # As given, not as forward() has them.
    return {"offset": torch.randint(0, 9, (batch_size, 8)), "mask": torch.rand(batch_size, 8) > 0.5,
            "x": torch.randn(batch_size, 8)}
"""

ARGS_AND_KWARGS = """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("hidden", torch.arange(4.0), persistent=False)
        self.table = torch.tensor([1.0, 2.0, 3.0, 4.0])

    def forward(self, x, unused, y=None):
        return self.second(self.first(x)) + self.hidden * self.table + y


def get_model():
    return M()


def get_dummy_input():
    return (torch.randn(3, 4), torch.randn(2)), {"y": torch.randn(3, 4)}
"""

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


class Stages:
    """The stage commands in one folder, each returning the finished process."""

    def __init__(self, folder: Path, environments: Path, source: str, options: dict) -> None:
        self.folder = folder
        self.environments = environments
        self.options = json.dumps(options)
        self.model = folder / "model.py"
        self.model.write_text(HEAD + source)

    def run(self, env: str, script: str, **options) -> subprocess.CompletedProcess:
        command = [str(self.environments / env / "bin/python"), "-m", f"scripts.{script}"]
        for name, value in options.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    def reference(self) -> subprocess.CompletedProcess:
        f = self.folder
        return self.run(
            "torch-mlir", "make_reference", name="m", model_file=self.model, options=self.options,
            out_weights=f / "weights.irpa", out_inputs=f / "inputs.npz",
            out_golden=f / "golden.npz", out_signature=f / "signature.json",
        )  # fmt: skip

    def export(self, dialect: str, ir_format: str = "text") -> subprocess.CompletedProcess:
        f = self.folder
        return self.run(
            "torch-mlir", "export_program", name="m", model_file=self.model, options=self.options,
            signature=f / "signature.json", exporter="torch_mlir", ir_format=ir_format,
            exporter_options=json.dumps({"dialect": dialect, "rewrites": "all"}),
            out_program=f / "program.mlir", out_report=f / "export.json",
        )  # fmt: skip

    def compile(self) -> subprocess.CompletedProcess:
        f = self.folder
        return self.run(
            "iree", "compile_iree", program=f / "program.mlir", backend="llvm-cpu",
            out_vmfb=f / "module.vmfb", out_report=f / "compile.json",
        )  # fmt: skip

    def measure(self) -> dict:
        f = self.folder
        done = self.run(
            "iree", "measure_iree", vmfb=f / "module.vmfb", weights=f / "weights.irpa",
            inputs=f / "inputs.npz", golden=f / "golden.npz", signature=f / "signature.json",
            device="local-task", raw_inputs=f / "raw", out=f / "measurement.json",
            rule='{"repeat": 2, "repetition_s": 0.01, "warmup_s": 0.01}',
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads((f / "measurement.json").read_text())


def ok(done: subprocess.CompletedProcess) -> None:
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("case", CASES)
def test_a_model_goes_all_the_way_and_is_verified(case, environments, tmp_path):
    source, options, dialect, ir_format = CASES[case]
    stages = Stages(tmp_path, environments, source, options)
    ok(stages.reference())
    ok(stages.export(dialect, ir_format))
    is_bytecode = (tmp_path / "program.mlir").read_bytes().startswith(b"ML\xefR")
    assert is_bytecode == (ir_format == "bytecode")
    ok(stages.compile())
    measured = stages.measure()
    assert measured["verification"]["code"] == "PASS"
    assert len(measured["latency"]["values_ms"]) == 2


def test_tied_weights_are_stored_once_and_hidden_buffers_are_stored(environments, tmp_path):
    stages = Stages(tmp_path, environments, ARGS_AND_KWARGS, {})
    ok(stages.reference())
    signature = json.loads((tmp_path / "signature.json").read_text())
    names = [p["name"] for p in signature["parameters"]]
    assert names == ["first.weight", "first.bias", "second.bias", "hidden"]
    assert signature["aliases"] == {"second.weight": "first.weight"}


def test_a_program_that_changes_its_state_is_unsupported_and_says_which(environments, tmp_path):
    stages = Stages(tmp_path, environments, CHANGES_ITS_STATE, {})
    ok(stages.reference())
    done = stages.export("torch")
    assert done.returncode == 3, done.stderr
    assert "error: the model changes count in place" in done.stderr


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def get_model(): return 3\n\ndef get_dummy_input(): return torch.zeros(1)\n",
         "get_model() returned int, expected a torch.nn.Module"),
        ("def get_model(): return nn.ReLU()\n\ndef get_dummy_input(): return 'x'\n",
         "get_dummy_input() returned str, expected a tensor, a tuple of tensors"),
        ("def get_model(): return nn.ReLU()\n", "no function get_dummy_input()"),
        ("import no_such_module\n\ndef get_model(): ...\n\ndef get_dummy_input(): ...\n",
         "importing it raised ModuleNotFoundError"),
        ("def get_model(pretrained: bool = True):\n    raise OSError('no route to host')\n\n"
         "def get_dummy_input(): ...\n", "OSError: no route to host"),
    ],
)  # fmt: skip
def test_a_wrong_model_file_is_told_what_was_expected(environments, tmp_path, source, message):
    stages = Stages(tmp_path, environments, source, {})
    done = stages.reference()
    assert done.returncode != 0
    assert f"error: {tmp_path / 'model.py'}: " in done.stderr
    assert message in done.stderr


def test_resnet_18_is_a_program_of_less_than_100_kilobytes(environments, tmp_path):
    stages = Stages(tmp_path, environments, "", {})
    stages.model = ROOT / "models/resnet.py"
    ok(stages.reference())
    ok(stages.export("torch"))
    assert (tmp_path / "program.mlir").stat().st_size < 100_000
