"""Compile StableHLO after scripts.frontends.lowering.stablehlo.for_iree, run it, print results: a line of JSON for each line.

Run with the Python of the iree environment; used by test_rewrites.py.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from iree import runtime
from iree.compiler import tools

from scripts.core.tensors import TensorType
from scripts.frontends.lowering import stablehlo
from scripts.frontends.lowering.link import Parameter


def main() -> None:
    for line in sys.stdin:
        print(json.dumps({"answer": answer(json.loads(line))}), flush=True)


def answer(case: dict) -> dict:
    arguments = [Parameter(TensorType(str(number), (), "float32")) for number in range(2)]
    text, names = stablehlo.for_iree(case["text"], arguments, [*map(str, case["changing"])])
    rewritten = {"rewrites": names, "text": text}
    if not case["compiles"]:
        return rewritten
    module = tools.compile_str(
        text,
        target_backends=["llvm-cpu"],
        input_type="stablehlo",
        extra_args=["--iree-llvmcpu-target-cpu=host", *case["flags"]],
    )
    loaded = runtime.load_vm_flatbuffer(module, driver="local-task")
    inputs = [np.array(i["values"], i["dtype"]) for i in case["inputs"]]
    result = loaded["main"](*inputs).to_host()
    return rewritten | {"values": result.tolist(), "dtype": str(result.dtype)}


if __name__ == "__main__":
    main()
