"""How many random graphs `vmfbench fuzz` draws and judges, by wall and CPU time of one core.

.venvs/torch-mlir/bin/python -m benchmarks.fuzz_rate --graphs 200
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import torch

from scripts.iree.backends import compile_flags
from scripts.tools.fuzz.fuzz_graphs import search
from scripts.tools.fuzz.paths import LoweringPath


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()
    torch.set_num_threads(1)
    options = {"dialect": "torch", "rewrites": "none"}
    with tempfile.TemporaryDirectory() as folder:
        path = LoweringPath("torch_mlir", options, compile_flags("llvm-cpu", None, None, ()), "local-task", Path(folder))  # fmt: skip
        wall, used = time.monotonic(), sum(os.times()[:4])
        # Pairs, which follow the graphs of one operator.
        said = search(path, args.seed, 1000, args.graphs)
        wall, used = time.monotonic() - wall, sum(os.times()[:4]) - used
    drawn = args.graphs / said["parts"]["draw"]
    print(f"{drawn:.0f} graphs per second drawn and run in eager (five times each)")
    print(f"{args.graphs / wall * 60:.0f} graphs per minute, {args.graphs / used * 60:.0f} per CPU minute: {said['counts']}")  # fmt: skip


if __name__ == "__main__":
    main()
