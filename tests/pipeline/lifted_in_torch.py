"""A graph that holds constants, lowered without torch.export; prints its arguments and what it computes as JSON.

Run in the environment torch-mlir; used by test_fx_rewrites.py.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from iree.compiler.tools import compile_str
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from scripts.core.tensors import TensorType
from scripts.frontends.exporters import torch_mlir
from scripts.frontends.lowering import link
from scripts.iree.session import Module, Session


def shifted(x: torch.Tensor) -> torch.Tensor:
    return (x - torch.tensor([1.0, 2.0])) / torch.tensor([4.0, 8.0])


def main() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        x = torch.empty(2)

    def captured(decompositions):
        with mode:
            return make_fx(shifted, dict(decompositions), "fake")(x)

    types = (TensorType("x", (2,), "float32"),)
    lowered = torch_mlir.export_graph(captured, types, {"dialect": "torch", "rewrites": "none"})
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder, "module.vmfb")
        program = link.link(lowered, types)
        compile_str(program, target_backends=["llvm-cpu"], output_file=str(module))
        (computed,), _ = Session(Module(module, None, "local-task"), 1).call([np.float32([9, 18])])
    arguments = [type(argument).__name__ for argument in lowered.arguments]
    print(json.dumps({"arguments": arguments, "computed": computed.tolist()}))


if __name__ == "__main__":
    main()
