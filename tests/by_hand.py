"""Runs the stage commands one by one, as a user would by hand, on models that a test writes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.checkouts import request_stage

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


class Stages:
    """The stage commands in one folder, each returning the finished process (`fork`: of checkouts.run_module)."""

    def __init__(
        self, folder: Path, environments: Path, source: str, options: dict, fork: bool = True
    ) -> None:
        self.folder = folder
        self.environments = environments
        self.fork = fork
        self.options = options
        self.model = folder / "model.py"
        self.model.write_text(HEAD + source)

    def run(self, env: str, script: str, **fields) -> subprocess.CompletedProcess:
        python = self.environments / env / "bin/python"
        return request_stage(python, script, self.folder, fork=self.fork, **fields)

    def reference(self) -> subprocess.CompletedProcess:
        return self.run(
            "torch-mlir",
            "make_reference",
            name="m",
            model_file=self.model,
            options=self.options,
        )

    def export(self, dialect: str, ir_format: str = "text") -> subprocess.CompletedProcess:
        return self.run(
            "torch-mlir", "export_program", name="m", model_file=self.model, options=self.options,
            signature=self.folder / "signature.json", exporter="torch_mlir", ir_format=ir_format,
            exporter_options={"dialect": dialect, "rewrites": "all"},
        )  # fmt: skip

    def compile(self) -> subprocess.CompletedProcess:
        program = self.folder / "program.mlir"
        return self.run("iree", "compile_iree", program=program, backend="llvm-cpu")

    def measure(self) -> dict:
        f = self.folder
        done = self.run(
            "iree", "verify_iree", vmfb=[f / "module.vmfb"], weights=f / "weights.irpa",
            inputs=f / "inputs.npz", golden=f / "golden.npz", signature=f / "signature.json",
            device="local-task",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads((f / "verification.json").read_text())


def ok(done: subprocess.CompletedProcess) -> None:
    assert done.returncode == 0, done.stderr[-3000:]
