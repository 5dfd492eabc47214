"""Load a module with a large weight several times; prints the growth of resident memory in MB as JSON.

Run with the Python of the iree environment: `sessions_in_iree FOLDER`; used by test_sessions.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil

from scripts.core import tensors
from scripts.iree.backends import compile_flags
from scripts.iree.session import Module, Session
from scripts.iree.tools import tool

MB = 32
SESSIONS = 8
PROGRAM = f"""
util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<{MB}x262144xf32>
func.func @main(%number: tensor<f32>) -> tensor<{MB}x262144xf32> {{
  %w = util.global.load @w : tensor<{MB}x262144xf32>
  %same = stablehlo.broadcast_in_dim %number, dims = [] : (tensor<f32>) -> tensor<{MB}x262144xf32>
  %sum = stablehlo.add %w, %same : tensor<{MB}x262144xf32>
  return %sum : tensor<{MB}x262144xf32>
}}
"""


def main() -> None:
    folder = Path(sys.argv[1])
    program, vmfb, weights = (folder / name for name in ("p.mlir", "p.vmfb", "w.irpa"))
    program.write_text(PROGRAM)
    flags = compile_flags("llvm-cpu", None, None, ())
    subprocess.run([tool("iree-compile"), *flags, program, "-o", vmfb], check=True)
    weight = np.ones(MB * 262144, np.float32)
    tensors.write_archive(weights, [("w", weight.view(np.uint8))])
    held: dict[str, np.ndarray] = {}
    seen = []
    for _ in range(SESSIONS):
        session = Session(Module(vmfb, weights, "local-task"), 1, held)
        outputs, _ = session.call([np.float32(1)])
        session.close()
        held = {"w": outputs[0].reshape(-1).view(np.uint8)}
        seen.append(psutil.Process().memory_info().rss / 2**20)
    last = float(held["w"].view(np.float32)[0])
    print(json.dumps({"last": last, "growth_mb": seen[-1] - seen[1]}))


if __name__ == "__main__":
    main()
