"""Verify and time a baseline runtime on the same weights, inputs and stopping rule as IREE."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import tempfile
from pathlib import Path

from scripts.lib import exits


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.measure_baseline", description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--model-file", required=True, type=Path)
    parser.add_argument("--options", default="{}", type=json.loads, help="the model's, JSON")
    parser.add_argument("--runtime", required=True, help="a module of scripts/baselines")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--weights", required=True, type=Path)
    parser.add_argument("--inputs", required=True, type=Path)
    parser.add_argument("--golden", required=True, type=Path)
    parser.add_argument("--signature", required=True, type=Path)
    parser.add_argument("--threads", type=int, help="default: the physical cores")
    parser.add_argument("--tolerance", default="{}", type=json.loads, help='{"atol":, "rtol":}')
    parser.add_argument("--rule", default="{}", type=json.loads, help="stopping rule, JSON")
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()
    if args.device == "cuda" and not has_cuda_driver():
        exits.fail("no device cuda: no CUDA driver (libcuda.so.1) here", exits.UNAVAILABLE)
    with tempfile.TemporaryDirectory(dir=args.out.parent, prefix="inductor-") as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(cache).absolute())
        from scripts.lib import baseline  # imports torch, which takes seconds

        baseline.measure(args)


def has_cuda_driver() -> bool:
    """Whether the CUDA driver library can be loaded, as torch and IREE load it."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
