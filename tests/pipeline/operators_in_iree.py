"""Compile the programs of operator problems, run them and compare with eager: verdicts as JSON.

Run with the Python of the iree environment; used by test_operators.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from iree import runtime
from iree.compiler import tools

from scripts.core import tensors
from scripts.measure.verify import torch_same
from scripts.measure.verify.torch_same import Tolerance


def main() -> None:
    folder = Path(sys.argv[1])
    print(json.dumps({path.stem: verdict(path) for path in sorted(folder.glob("*.mlir"))}))


def verdict(program: Path) -> str:
    """Return the verdict of the comparison with eager, or the end of the compiler's output."""
    number = program.name.partition(".")[0]
    try:
        module = tools.compile_file(
            str(program),
            target_backends=["llvm-cpu"],
            extra_args=["--iree-llvmcpu-target-cpu=host"],
        )
    except tools.CompilerToolError as error:
        return str(error)[-300:]
    main_ = runtime.load_vm_flatbuffer(module, driver="local-task")["main"]
    stored = tensors.load_npz(program.with_name(f"{number}.inputs.npz"))
    returned = main_(*(stored[str(i)] for i in range(len(stored))))
    results = returned if isinstance(returned, tuple | list) else [returned]
    golden = tensors.load_npz(program.with_name(f"{number}.golden.npz"), "golden.")
    wanted = [golden[f"golden.{i}"] for i in range(len(golden))]
    outputs = [np.asarray(result.to_host()) for result in results]
    dtypes = [array.dtype.name for array in wanted]
    found = torch_same.compare(outputs, wanted, None, Tolerance(1e-3), dtypes)
    return found.detail or found.code


if __name__ == "__main__":
    main()
