"""Verify and time a baseline runtime on the same weights, inputs and stopping rule as IREE."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import tempfile
from pathlib import Path

from scripts.lib import exits, modelfile
from scripts.lib.precision import PRECISIONS, TESTS


def main() -> None:
    parser = argument_parser("scripts.measure_baseline", __doc__)
    parser.add_argument("--tolerance", default="{}", type=json.loads, help='{"tol":, "cosine":}')
    parser.add_argument("--rule", default="{}", type=json.loads, help="stopping rule, JSON")
    parser.add_argument(
        "--collect", default="[]", type=json.loads, help="profiles to take after the timing, JSON"
    )
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()
    prepare_process(args)
    with tempfile.TemporaryDirectory(dir=args.out.parent, prefix="inductor-") as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(cache).absolute())
        from scripts.lib import baseline  # imports torch, which takes seconds

        baseline.measure(args)


def argument_parser(module: str, description: str) -> argparse.ArgumentParser:
    """What every command that runs a baseline takes."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    modelfile.add_arguments(parser)
    parser.add_argument("--runtime", required=True, help="a module of scripts/baselines")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--test", default="eval", choices=TESTS)
    parser.add_argument("--precision", default="none", choices=PRECISIONS)
    parser.add_argument("--matmul-precision", default="highest", choices=MATMUL_PRECISIONS)
    parser.add_argument("--xla-flags", default="", help="XLA_FLAGS of the runtime")
    parser.add_argument(
        "--optimizer", default="{}", type=json.loads, help='{"name": "SGD", "lr": 0.01}'
    )
    parser.add_argument("--weights", required=True, type=Path)
    parser.add_argument("--inputs", required=True, type=Path)
    parser.add_argument("--golden", required=True, type=Path, help="of the test")
    parser.add_argument("--signature", required=True, type=Path, help="of the test")
    parser.add_argument("--threads", type=int, help="default: the physical cores")
    return parser


MATMUL_PRECISIONS = ("highest", "high", "medium")


def prepare_process(args: argparse.Namespace) -> None:
    """What must be settled before torch is imported; exits where there is no device."""
    if args.device == "cuda" and not has_cuda_driver():
        exits.fail("no device cuda: no CUDA driver (libcuda.so.1) here", exits.UNAVAILABLE)
    if args.xla_flags:
        os.environ["XLA_FLAGS"] = args.xla_flags


def has_cuda_driver() -> bool:
    """Whether the CUDA driver library can be loaded, as torch and IREE load it."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
