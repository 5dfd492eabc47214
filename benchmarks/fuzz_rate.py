"""How many random graphs `vmfbench fuzz` draws and judges, by wall and CPU time of one core, and what takes the time.

A graph is a program with a set of values: each program is compiled once, and run with up to four sets.

.venvs/torch-mlir/bin/python -m benchmarks.fuzz_rate --programs 128
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.ao.quantization.fx._decomposed

from scripts.iree.backends import compile_flags
from scripts.tools.fuzz.fuzz_graphs import search
from scripts.tools.fuzz.operators import ALONE, OPERATORS
from scripts.tools.fuzz.paths import LoweringPath


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--programs", type=int, default=128)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--alone", action="store_true", help="graphs of one operator, not of pairs")
    args = parser.parse_args()
    torch.set_num_threads(1)
    options = {"dialect": "torch", "rewrites": "none"}
    first = 0 if args.alone else ALONE * len(OPERATORS)
    with tempfile.TemporaryDirectory() as folder:
        path = LoweringPath(Path(folder), "torch_mlir", options, compile_flags("llvm-cpu", None, None, ()), "local-task")  # fmt: skip
        wall, used = time.monotonic(), sum(os.times()[:4])
        searched = search(path, {"seed": args.seed, "first": first, "count": args.programs})
        wall, used = time.monotonic() - wall, sum(os.times()[:4]) - used
    counts = searched["counts"]
    judged = sum(n for status, n in counts.items() if not status.startswith("undefined"))
    print(f"{sum(counts.values()) / searched['parts']['draw']:.0f} graphs per second drawn and run in eager, five times each")  # fmt: skip
    print(f"{judged / wall * 60:.0f} graphs judged per minute, {judged / used * 60:.0f} per CPU minute: {counts}")  # fmt: skip
    print(f"{args.programs / used * 60:.0f} programs per CPU minute")
    print({part: round(seconds, 1) for part, seconds in searched["parts"].items()})


if __name__ == "__main__":
    main()
